"""End a run, and remove what is left of one. Which run, and when, is decided elsewhere.

stop, graceful        delete the driver pod, keep the SparkApplication as a record
stop, not graceful    delete ConfigMaps, SparkApplication and pod, with 1 s of grace
forget                delete ConfigMaps, then SparkApplication and its ended pods
forget, pods only     delete its ended pods, keep the rest as a record
"""

from datetime import datetime

from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import creation, pods
from icdc_operator.cluster.runs.observation import Observation
from icdc_operator.cluster.runs.seen import RunObjects

KILL_SECONDS = 1
"""Grace period of a driver that must end now. Not 0: the API server would then delete the pod
before the kubelet has ended its processes, and the next run would begin beside them."""


async def stop(
    api: ClusterApi, observation: Observation, name: str, *, graceful: bool, now: datetime
) -> None:
    """End the drivers of every attempt of that name by deleting their pods."""
    for attempt in _list_attempts(observation, name):
        await _stop(api, observation, attempt, graceful=graceful, now=now)


async def forget(
    api: ClusterApi, observation: Observation, name: str, *, pods_only: bool = False
) -> None:
    """Delete the objects of an ended run; the ConfigMaps first, as in `_stop`."""
    if not pods_only:
        await creation.forget_config_maps(api, observation.owner.namespace, name)
    for attempt in _list_attempts(observation, name):
        if attempt.writers:
            continue  # not ended after all: `decide` sees it in the next reconcile
        if attempt.application is not None and not pods_only:
            await _delete(api, kinds.APPLICATION, attempt.application)
        for pod in attempt.pods:
            await _delete(api, kinds.POD, pod)


async def _stop(
    api: ClusterApi,
    observation: Observation,
    attempt: RunObjects,
    *,
    graceful: bool,
    now: datetime,
) -> None:
    """Delete the pods of one attempt.

    Graceful: the SparkApplication stays as a record. If there is no pod, or no time, it is
    deleted too, so that spark-operator creates no other pod.
    """
    application = attempt.application
    if application is not None and (not graceful or not attempt.writers):
        # The ConfigMaps first: they are found by the SparkApplication alone, so a crash in between
        # must leave the latter.
        await creation.forget_config_maps(api, observation.owner.namespace, attempt.name)
        await _delete(api, kinds.APPLICATION, application)
    for pod in attempt.writers:
        if pods.is_given_up(pod, now):
            # Its node does not answer, so the kubelet never confirms the deletion. A driver
            # that still lives there is fenced by its epoch.
            await _delete(api, kinds.POD, pod, grace_seconds=0, again=True)
        elif graceful:
            await _delete(api, kinds.POD, pod)
        else:
            shorter = pods.get_grace_seconds(pod) > KILL_SECONDS
            await _delete(api, kinds.POD, pod, grace_seconds=KILL_SECONDS, again=shorter)


async def _delete(
    api: ClusterApi,
    kind: kinds.Kind,
    target: Resource,
    *,
    grace_seconds: int | None = None,
    again: bool = False,
) -> None:
    """Delete the object by its uid; `again`: even if its deletion was requested already."""
    metadata = target["metadata"]
    if metadata.get("deletionTimestamp") and not again:
        return
    await api.delete(
        kind,
        metadata["namespace"],
        metadata["name"],
        uid=metadata["uid"],
        grace_seconds=grace_seconds,
    )


def _list_attempts(observation: Observation, name: str) -> list[RunObjects]:
    return [attempt for attempt in observation.runs if attempt.name == name]
