"""Remember of runs what no object of the cluster holds: hints that are never needed.

    an ended driver pod      its last report, if the pod is deleted before a reconcile reads it
    a refused creation       why; a run that was not created has no object to say so
    a refused question       that this run is deaf: a run of its own answers instead
    a denied action          which permission is missing, for DENIAL_SECONDS
    an obstacle              why a run could not be created yet, for as long

The first two are dropped once the run is in the status. A restarted operator works without them:
a run whose pod is unknown is Missing, and the next run does the rest. For one event
loop.
"""

from datetime import datetime, timedelta

from icdc_api import naming
from icdc_api.job import report_text
from icdc_api.status.runs import Failure
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import pods
from icdc_operator.core.observed import Action
from icdc_operator.manifests.metadata import ANNOTATION_EPOCH, ANNOTATION_RUN_ID, read_epoch

Key = tuple[str, str]
"""Namespace and name of a pipeline."""

DENIAL_SECONDS = 300.0
"""How long a denial is remembered after the last try: longer than any wait between two tries."""

# All that `seen` reads of an ended pod: a whole pod has tens of kilobytes, and there is one for
# each pipeline.
_SAVED_ANNOTATIONS = (report_text.ANNOTATION_REPORT, ANNOTATION_RUN_ID, ANNOTATION_EPOCH)
_SAVED_METADATA = ("name", "creationTimestamp", "deletionTimestamp")


class Memory:
    """For each pipeline at most one ended pod, one refused run, one deaf and one denied action."""

    def __init__(self) -> None:
        self._ended: dict[Key, tuple[str, Resource]] = {}
        self._refused: dict[Key, tuple[int, Failure]] = {}
        self._denied: dict[Key, tuple[Action, Failure, datetime]] = {}
        self._deaf: dict[Key, int] = {}
        self._obstacles: dict[Key, tuple[int, Failure, datetime]] = {}

    def note_pod(self, pod: Resource) -> None:
        """Remember a driver pod that has ended or is about to; ignore any other."""
        metadata = pod["metadata"]
        annotations = metadata.get("annotations") or {}
        pipeline = (metadata.get("labels") or {}).get(naming.LABEL_PIPELINE)
        run_id = annotations.get(ANNOTATION_RUN_ID)
        ending = pods.is_terminating(pod) or not pods.may_write(pod)
        if not pipeline or not run_id or not ending:
            return
        key = (metadata["namespace"], pipeline)
        earlier = self._ended.get(key)
        # Watches may repeat old objects: a newer attempt's pod must stay.
        if earlier is not None and (read_epoch(earlier[1]) or 0) > (read_epoch(pod) or 0):
            return
        saved = {name: metadata[name] for name in _SAVED_METADATA if name in metadata}
        saved["annotations"] = {n: annotations[n] for n in _SAVED_ANNOTATIONS if n in annotations}
        # By it `may_write` knows that a container that has ended is not started again.
        spec = {"restartPolicy": (pod.get("spec") or {}).get("restartPolicy")}
        slim = {"kind": "Pod", "metadata": saved, "spec": spec, "status": pod.get("status")}
        self._ended[key] = (run_id, slim)

    def find_ended_pods(self, key: Key, run_id: str | None) -> dict[str, Resource]:
        """Return the ended pod of that run, by run id; drop one of another run."""
        entry = self._ended.get(key)
        if entry is None:
            return {}
        # The status has another run by now, so the report of this pod is in it.
        if entry[0] != run_id:
            del self._ended[key]
            return {}
        return {entry[0]: entry[1]}

    def refuse(self, key: Key, epoch: int, failure: Failure) -> None:
        """Remember why the run of that epoch could not be created."""
        self._refused[key] = (epoch, failure)

    def find_refusal(self, key: Key, epoch: int | None) -> Failure | None:
        """Return why the run of that epoch could not be created; drop that of another run."""
        entry = self._refused.get(key)
        if entry is None:
            return None
        if entry[0] != epoch:
            del self._refused[key]
            return None
        return entry[1]

    def note_obstacle(self, key: Key, epoch: int, failure: Failure, now: datetime) -> None:
        """Remember why the run of that epoch could not be created yet."""
        self._obstacles[key] = (epoch, failure, now)

    def find_obstacle(self, key: Key, epoch: int | None, now: datetime) -> Failure | None:
        """Return why the run of that epoch could not be created when it was last tried.

        None if that is long ago: an API server that was away since then says nothing of it.
        """
        entry = self._obstacles.get(key)
        if entry is None:
            return None
        if entry[0] != epoch or now - entry[2] > timedelta(seconds=DENIAL_SECONDS):
            del self._obstacles[key]
            return None
        return entry[1]

    def note_deaf(self, key: Key, epoch: int) -> None:
        """Remember that no question can be handed to the run of that epoch."""
        self._deaf[key] = epoch

    def is_deaf(self, key: Key, epoch: int) -> bool:
        """Return whether no question can be handed to the run of that epoch."""
        return self._deaf.get(key) == epoch

    def deny(self, key: Key, action: Action, failure: Failure, now: datetime) -> None:
        """Remember why the action is not allowed."""
        self._denied[key] = (action, failure, now)

    def allow(self, key: Key, action: Action) -> None:
        """Drop the denial of an action that was carried out."""
        entry = self._denied.get(key)
        if entry is not None and entry[0] == action:
            del self._denied[key]

    def find_denial(self, key: Key, now: datetime) -> Failure | None:
        """Return why an action is not allowed; drop it if the action is no longer tried."""
        entry = self._denied.get(key)
        if entry is None:
            return None
        if now - entry[2] > timedelta(seconds=DENIAL_SECONDS):
            del self._denied[key]
            return None
        return entry[1]

    def forget(self, key: Key) -> None:
        """Drop everything about a deleted pipeline."""
        self._denied.pop(key, None)
        self._ended.pop(key, None)
        self._refused.pop(key, None)
        self._deaf.pop(key, None)
        self._obstacles.pop(key, None)
