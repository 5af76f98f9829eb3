"""Reasons of tables and of failed runs. Most are names of errors; the others are more exact words
for one error, which the operator takes from pods and from the API server.

What Kubernetes itself writes into the status of a pod that it removes, such as `Evicted`, is passed
on word for word. That set is open, so it is not listed: each of these has the class NodeLost.
"""

from collections.abc import Iterator

from icdc_api import errors
from icdc_api.errors import IcdcError
from icdc_api.job.answers import BATCH_UNDER_WAY
from icdc_cli.explanations import sources
from icdc_cli.explanations.cures import CURES, EDIT, LOGS, POD_LOGS, PODS, RIGHTS, VERIFY, edit
from icdc_cli.explanations.entry import NOT_NEEDED, Explanation, Family

_DOCTOR = "icdc doctor -n NAMESPACE"
_STATUS_FILE = "status/pipeline_status.py"
_KUBE_FILE = "cluster/kube/api_errors.py"
_ABSTRACT = (errors.PassingError, errors.TableError, errors.RunError)

_IMAGE = "The kubelet cannot get the container image"
_START = "The kubelet cannot start the container"
_SIGNAL = "The driver was ended by a signal from outside of the run, {}, such as of a drained node."
_EXACT: dict[type[IcdcError], dict[str, str]] = {
    errors.NodeLost: {
        "ApplicationSuspended": "Somebody suspended the SparkApplication of the run.",
        "NodeNotResponding": "The driver was asked to end, and its node does not answer.",
        "NodeNotReady": "The node of the driver does not answer. If it does not come back, the run "
        "is retried on another node.",
        "DriverNotResponding": "The driver has not renewed its report for ten minutes, although "
        "its node answers: it is frozen, or cannot write to the API server. Its run was ended, and "
        "is retried. If it happens again, the platform engineer must find out why: a disk that "
        "does not answer, too little memory for the driver, or a permission that is missing.",
        "DisruptionTarget": "Kubernetes removed the driver's pod without saying why.",
        "PodDeleted": "Somebody deleted the driver's pod.",
        "PodEnded": "The driver's pod ended before its driver began.",
        "ContainerLost": "The driver's container was gone when its node, or the container runtime, "
        "had been restarted.",
        **{name: _SIGNAL.format(name) for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGKILL")},
        "SIGTERM": _SIGNAL.format("SIGTERM"),
    },
    errors.Unschedulable: {
        "QuotaExceeded": "A ResourceQuota of the namespace leaves no room for the run.",
        "SchedulingGated": "The driver's pod has scheduling gates that nobody has removed.",
    },
    errors.StartTimeout: {
        "ContainerCreating": "A pod of the run has no container yet: its image is still being "
        "pulled, a Secret that the pipeline names is missing, or a volume cannot be attached.",
        "PodInitializing": "The driver's pod waits for an init container, such as one that an "
        "injector of the cluster has added. The log of that container says why.",
        "ExecutorsMissing": "The run waits for executors, and has none: Kubernetes refuses to "
        "create their pods, or these end as they start. The log of the driver has the cause.",
        "ExecutorsNotRegistered": "The pods of the executors run, but do not reach the driver.",
    },
    errors.Submission: {
        "SubmissionFailed": "spark-submit ended with an error; the message has its cause.",
        "SparkOperatorNotWatching": "spark-operator does not take up the SparkApplication: it does "
        "not run, or does not watch the namespace.",
        "SparkOperatorMissing": "The cluster has no kind SparkApplication: spark-operator or its "
        "CRDs are not installed.",
        "NotCreated": "The API server does not create the SparkApplication: it is overloaded, or "
        "an admission webhook, such as that of spark-operator, does not answer; the message has "
        "the cause.",
        "NameTaken": "",
        "Invalid": "",
        "InitContainerFailed": "An init container of the driver's pod ended with an error.",
        "DriverNotStarted": "The image has no program that starts the driver: it is not an image "
        "of this operator, or its entry point was changed.",
        "ContainerCannotRun": "The process of the driver's container never began.",
        "StartError": "The process of the driver's container never began.",
    },
    errors.Unauthorized: {
        "AdmissionDenied": "A policy of the cluster (an admission webhook or rule) refuses the "
        "objects of the run; the message names it.",
        "Denied": "",
    },
    errors.OutOfMemory: {
        "OOMKilled": "The kernel killed the driver's container because it used more memory than "
        "its limit.",
    },
    errors.ImagePull: {
        "ErrImagePull": f"{_IMAGE}; the message has the registry's answer.",
        "ImagePullBackOff": f"{_IMAGE}, and waits before it tries again.",
        "InvalidImageName": f"{_IMAGE}: its name is not a valid one.",
        "ErrImageNeverPull": f"{_IMAGE}: it is not on the node, and the pull policy is Never.",
        "ImageInspectError": f"{_IMAGE}: what is on the node is damaged.",
        "RegistryUnavailable": f"{_IMAGE}: the registry does not answer.",
        "SignatureValidationFailed": f"{_IMAGE}: its signature is not accepted.",
    },
    errors.BadSpec: {
        "CreateContainerConfigError": f"{_START}: what the pod refers to is missing, such as a key "
        "of a Secret.",
        "CreateContainerError": f"{_START}: the runtime refuses to create it.",
        "PreCreateHookError": f"{_START}: a hook before its creation failed.",
        "PreStartHookError": f"{_START}: a hook before its start failed.",
        "RunContainerError": f"{_START}: the runtime refuses to run it.",
    },
    errors.Bug: {
        "ReportUnreadable": "The driver's pod holds no report that can be read: somebody changed "
        "it, or driver and operator are of different versions.",
        "NoOutcome": "The driver ended with an exit code and reported no outcome. Its log has the "
        "cause.",
    },
}
"""More exact words, by the error on which each stands. The empty ones are errors of the API server
with a docstring of their own."""

_CURES = {
    "AdmissionDenied": (
        "kubectl get validatingwebhookconfigurations,validatingadmissionpolicies",
        f"{EDIT}, so that the policy accepts it",
    ),
    "NotCreated": (
        "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
        "kubectl get pods --all-namespaces -l app.kubernetes.io/name=spark-operator",
    ),
    "Denied": (RIGHTS,),
    "Invalid": (EDIT,),
    "SparkOperatorMissing": (f"{_DOCTOR}  # prints the command that installs it",),
    "SparkOperatorNotWatching": (
        "kubectl get pods --all-namespaces -l app.kubernetes.io/name=spark-operator",
        f"{_DOCTOR}  # which namespaces it watches, and the command that adds this one",
    ),
    "DriverNotResponding": (
        f"{PODS}  # on which node it is",
        edit("spark.driver.memory", "more, if it only collects garbage"),
    ),
    "QuotaExceeded": ("kubectl describe quota -n NAMESPACE",),
    "ExecutorsMissing": (LOGS, "kubectl describe quota,limitrange -n NAMESPACE"),
    "ExecutorsNotRegistered": (PODS, "kubectl get networkpolicies -n NAMESPACE"),
    "PodInitializing": (PODS, POD_LOGS),
    "ContainerCreating": (
        PODS,
        "kubectl get secrets -n NAMESPACE",
        edit("timeouts.startSeconds", "more time, if the image is large"),
    ),
    "CreateContainerConfigError": (PODS, "kubectl get secrets -n NAMESPACE"),
}
"""Where the cure of the error is not the nearest one."""


def list_reasons() -> list[Explanation]:
    """Return all reasons: those of tables in the order of their enum, then those of runs."""
    of_tables = sources.read_members("icdc_api", _STATUS_FILE, "TableReason")
    entries = [_explain(word, text, getattr(errors, word)) for word, text in of_tables.items()]
    for kind in list_errors(IcdcError):
        if kind.__name__ not in of_tables:
            text = sources.read_class("icdc_api", "errors.py", kind.__name__)
            entries.append(_explain(kind.__name__, text, kind))
    listed = {entry.word for entry in entries}
    for kind, words in _EXACT.items():
        for word, text in words.items():
            if word not in listed:
                entries.append(_explain(word, text or _read_kube_error(word), kind))
    return [*entries, _explain_batch_under_way()]


def _explain(word: str, meaning: str, kind: type[IcdcError]) -> Explanation:
    cure = _CURES.get(word, CURES[kind.__name__])
    return Explanation(word, Family.REASON, meaning, kind.who_acts.value, cure)


def _explain_batch_under_way() -> Explanation:
    meaning = (
        "A comparison, or a question about dead letters, met a batch that was only partly applied, "
        "so its answer would prove nothing: what differs may be a part of the batch."
    )
    cure = (f"{VERIFY}  # again, once the batch is applied",)
    return Explanation(BATCH_UNDER_WAY, Family.REASON, meaning, NOT_NEEDED, cure)


def _read_kube_error(word: str) -> str:
    return sources.read_class("icdc_operator", _KUBE_FILE, word)


def list_errors(kind: type[IcdcError]) -> Iterator[type[IcdcError]]:
    """Yield the errors of the API below `kind` that are raised, in their order in the module."""
    for below in kind.__subclasses__():
        # Others, of the operator or of a run, are known to whoever has imported these.
        if below.__module__ == errors.__name__:
            if below not in _ABSTRACT:
                yield below
            yield from list_errors(below)
