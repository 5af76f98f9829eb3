"""Find out why a run that waits for executors has none.

Its driver reports that it waits, and cannot know why: Kubernetes says it on the executors' pods,
which are read only then. The first line that applies to any of the pods decides:

    a pod that has not started            as for a driver: no room, no image, no volume
    a pod that has ended                  ExecutorsMissing: they end as they start
    a pod that runs                       ExecutorsNotRegistered: it does not reach the driver
    a pod that is about to start          StartTimeout
    no pod                                ExecutorsMissing: Kubernetes refuses to create them

Where they end as they start, Spark ends the run after a few of them, and its driver reports only
that Spark has ended: NodeLost, which would be tried again at once and for ever.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from icdc_api import naming
from icdc_api.errors import FailureClass, StartTimeout
from icdc_api.job.run_files import RunReport
from icdc_api.status.runs import Failure
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import evidence, pod_failures, pods
from icdc_operator.core.observed import RunSeen

EXECUTOR_SELECTOR = "spark-role=executor"
"""Label that Spark gives to executor pods."""


EXECUTORS_ENDED = evidence.build_failure(
    StartTimeout(
        "the run had no executor: their pods ended before they reached the driver, again and "
        "again, until Spark ended the run. The log of the driver has their exit codes; with "
        "spark.kubernetes.executor.deleteOnTermination: 'false' in spec.spark.conf their pods "
        "stay, with their logs"
    ),
    "ExecutorsMissing",
)
"""The failure of a run whose executors ended again and again."""


def ended_run(report: RunReport) -> bool:
    """Return whether Spark ended the run, by its last report, for want of executors."""
    outcome = report.outcome
    lost = outcome is not None and outcome.failure_class == FailureClass.NODE_LOST
    return lost and report.without_executors_since is not None


async def explain_waits(
    api: ClusterApi, namespace: str, runs: Iterable[RunSeen], now: datetime
) -> tuple[RunSeen, ...]:
    """Return the runs, with why they have no executor where they wait for one."""
    return tuple([await _explain_wait(api, namespace, run, now) for run in runs])


async def _explain_wait(api: ClusterApi, namespace: str, run: RunSeen, now: datetime) -> RunSeen:
    # What is wrong with the driver, such as its node, says more.
    if not run.live or not run.waits_for_executors or run.failure is not None:
        return run
    selector = f"{naming.LABEL_RUN}={run.name},{EXECUTOR_SELECTOR}"
    listed = await api.list_objects(kinds.POD, namespace, selector=selector)
    return replace(run, failure=explain(listed, now))


def explain(executor_pods: Sequence[Resource], now: datetime) -> Failure:
    """Return why none of these executors works for its driver."""
    # The oldest first: it has waited longest, and another one in front would change the message.
    ordered = sorted(executor_pods, key=_get_age)
    alive = [pod for pod in ordered if pods.may_write(pod) and not pods.is_terminating(pod)]
    running = [pod for pod in alive if pods.is_running(pod)]
    for pod in alive:
        failure = None if pod in running else pod_failures.explain_not_started(pod, now)
        if failure is not None:
            message = f"the run waits for executors: {failure.message}"
            return failure.model_copy(update={"message": message})
    ends = (pods.find_container_exit(pod) for pod in ordered)
    reasons = sorted({f"{end.reason}, code {end.code}" for end in ends if end is not None})
    if reasons:
        text = f"their pods end before they reach the driver ({'; '.join(reasons)})"
    elif running:
        text = (
            "the run waits for executors: their pods run, but do not reach the driver; their logs "
            "say why, such as a network policy that forbids it, or cluster DNS"
        )
        return evidence.build_failure(StartTimeout(text), "ExecutorsNotRegistered")
    elif alive:
        return Failure.of(StartTimeout("the run waits for executors: their pods are being started"))
    else:
        text = (
            "there is no pod of one. Kubernetes refuses to create them, such as for a "
            "ResourceQuota, a LimitRange or an admission rule, or they end at once"
        )
    text = f"the run waits for executors: {text}; the log of its driver has the cause"
    return evidence.build_failure(StartTimeout(text), "ExecutorsMissing")


def _get_age(pod: Resource) -> tuple[str, str]:
    metadata = pod["metadata"]
    return str(metadata.get("creationTimestamp") or ""), metadata["name"]
