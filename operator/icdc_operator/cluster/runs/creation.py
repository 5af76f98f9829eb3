"""Create the objects of a run, and of a question to it, once, however often it is requested.

Names are fixed by the record in the status. So if an object of that name exists:

    it belongs to      then
    this attempt       it was created before: done
    an older attempt   it is deleted first, and creation is tried again (Conflict)
    a newer attempt    this operator is behind: Conflict
    a stranger         it stays, and the run fails with NameTaken
"""

import re
from typing import Any

from icdc_api import naming
from icdc_api.errors import BadSpec, FailureClass, IcdcError, Submission, Unschedulable
from icdc_api.job.run_files import RunQuestion
from icdc_api.status.runs import Failure, RunKind
from icdc_operator.cluster.kube import api_errors, kinds
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import evidence
from icdc_operator.manifests import application, config_map, metadata
from icdc_operator.manifests.launch import Launch
from icdc_operator.manifests.metadata import ANNOTATION_RUN_ID, read_epoch

REFUSED = (
    BadSpec,
    api_errors.NameTaken,
    api_errors.Denied,
    api_errors.Invalid,
    api_errors.NotFound,
)
"""Errors after which the same request cannot succeed. Any other may pass."""

_ADMISSION = re.compile("denied (the )?request")
"""What an admission webhook, or a ValidatingAdmissionPolicy, says; the status is their choice."""


async def create(api: ClusterApi, launch: Launch, pipeline: Resource) -> None:
    """Create the run's ConfigMap, then its SparkApplication, unless they exist.

    Raises one of REFUSED, after which nothing of the run is left; Conflict while an older attempt
    is in the way; Unavailable.
    """
    # The ConfigMap first: a driver that starts before its request exists would fail.
    request = config_map.build_request(launch, pipeline)
    wanted = config_map.build_config_map(launch, request)
    spark = application.build_spark_application(launch)
    await _create(api, wanted, launch)
    try:
        await _create(api, spark, launch)
    except REFUSED:
        # The record of a refused run ends, and a ConfigMap is found by its SparkApplication alone:
        # nobody would delete it before the pipeline.
        await _forget(api, launch.owner.namespace, launch.run.name)
        raise


async def ask(api: ClusterApi, launch: Launch, question: RunQuestion | None) -> None:
    """Hand a question to the run, in place of the one before; None only withdraws that one.

    Raises one of REFUSED; Conflict while the question before is being removed; Unavailable.
    """
    name, namespace = metadata.name_question_map(launch.run.name), launch.owner.namespace
    if question is not None:
        wanted = config_map.build_question_map(launch, question)
        present = await api.get(kinds.CONFIG_MAP, namespace, name)
        same = present is not None and present.get("data") == wanted["data"]
        if present is not None and same and _is_of_attempt(present, launch):
            return
    await _forget(api, namespace, name)
    if question is not None:
        await _create(api, wanted, launch)


async def forget_config_maps(api: ClusterApi, namespace: str, run: str) -> None:
    """Delete the ConfigMaps of a run, its request and its question, if they exist and are ours."""
    for name in (metadata.name_question_map(run), run):
        await _forget(api, namespace, name)


async def _forget(api: ClusterApi, namespace: str, name: str) -> None:
    present = await api.get(kinds.CONFIG_MAP, namespace, name)
    if present is not None and _is_managed(present):
        uid = present["metadata"]["uid"]
        await api.delete(kinds.CONFIG_MAP, namespace, name, uid=uid)


def explain_refusal(error: IcdcError) -> Failure:
    """Return the failure of a run whose objects were refused, for the retry policy and people."""
    match error:
        # A quota refuses with 403, too, but there is room again once other pods end.
        case api_errors.Denied() if "exceeded quota" in error.message:
            return evidence.build_failure(Unschedulable(error.message), "QuotaExceeded")
        case api_errors.Denied() | api_errors.Invalid() if _ADMISSION.search(error.message):
            return _retry_slowly(evidence.build_failure(error, "AdmissionDenied"))
        case api_errors.Denied():
            return _retry_slowly(Failure.of(error))
        case api_errors.NotFound():
            return evidence.build_failure(
                _without_kind(error), "SparkOperatorMissing", retryable=True
            )
        case api_errors.NameTaken():
            # The next attempt has another name.
            return evidence.build_failure(error, "NameTaken", retryable=True)
    return Failure.of(error)


def explain_delay(error: api_errors.Unavailable) -> Failure:
    """Return why a run is not created yet: that may pass, but somebody should know if it lasts."""
    text = f"the run cannot be created: {error.message}"
    return evidence.build_failure(Submission(text), "NotCreated", retryable=True)


def _retry_slowly(failure: Failure) -> Failure:
    """Return `failure` as one that is tried again, at long intervals."""
    # Permissions and admission rules are changed outside of the pipeline, and nothing reports it.
    return failure.model_copy(update={"failure_class": FailureClass.AUTH})


def _without_kind(error: api_errors.NotFound) -> api_errors.NotFound:
    return api_errors.NotFound(
        "the cluster has no kind SparkApplication: install spark-operator (v1beta2), with its "
        f"CRDs ({error.message})"
    )


async def _create(api: ClusterApi, wanted: Resource, launch: Launch) -> None:
    try:
        await api.create(wanted)
        return
    except api_errors.Conflict:
        present = await api.get(
            kinds.find_kind(wanted), launch.owner.namespace, wanted["metadata"]["name"]
        )
    # It was there when we created, and is not now. Conflict: the next reconcile tries again.
    if present is None:
        raise api_errors.Conflict(f"{evidence.describe(wanted)} was deleted just now")
    if not _is_managed(present) or not _is_of_pipeline(present, launch):
        raise api_errors.NameTaken(
            f"{evidence.describe(wanted)} exists in {launch.owner.namespace} and is not a run of "
            f"the pipeline {launch.owner.name}: whoever owns it must delete or rename it"
        )
    metadata = present["metadata"]
    if metadata.get("deletionTimestamp"):
        raise api_errors.Conflict(f"{evidence.describe(wanted)} of an older run is being deleted")
    if _is_of_attempt(present, launch):
        return
    # An operator that was cut off may come back with an old record: the newer run stays.
    if (read_epoch(present) or 0) > launch.run.epoch:
        raise api_errors.Conflict(
            f"{evidence.describe(wanted)} belongs to a newer run than this one"
        )
    # A left-over of an older attempt. Live attempts do not come here: `decide` stops them before it
    # creates another; one that starts this moment must end anyway.
    await api.delete(
        kinds.find_kind(wanted), launch.owner.namespace, metadata["name"], uid=metadata["uid"]
    )
    raise api_errors.Conflict(
        f"{evidence.describe(wanted)} of an older run still existed and was deleted"
    )


def _is_managed(resource: Resource) -> bool:
    labels = resource["metadata"].get("labels") or {}
    return bool(labels.get(naming.LABEL_MANAGED_BY) == naming.MANAGED_BY)


def _list_owners(resource: Resource) -> list[dict[str, Any]]:
    return resource["metadata"].get("ownerReferences") or []


def _is_of_pipeline(resource: Resource, launch: Launch) -> bool:
    """Return whether a pipeline of that name owns it, this one or a deleted one before it."""
    pipeline = launch.owner.name
    if launch.run.kind == RunKind.DELETION and not _list_owners(resource):
        labels = resource["metadata"].get("labels") or {}
        return bool(labels.get(naming.LABEL_PIPELINE) == pipeline)
    return any(
        (owner.get("kind"), owner.get("name")) == (naming.KIND, pipeline)
        for owner in _list_owners(resource)
    )


def _is_of_attempt(resource: Resource, launch: Launch) -> bool:
    run_id = (resource["metadata"].get("annotations") or {}).get(ANNOTATION_RUN_ID)
    uids = {owner.get("uid") for owner in _list_owners(resource)}
    unowned = launch.run.kind == RunKind.DELETION and not uids
    return run_id == launch.run_id and (unowned or launch.owner.uid in uids)
