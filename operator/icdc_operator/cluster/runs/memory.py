"""What the operator remembers of a run beyond what the cluster holds: hints, never needed.

A pod that ends takes its last words with it, and a run that could not be created leaves no object
that says why; nor does any show what the operator may not do to it. The first two are kept until
the run is in the status; an operator that starts anew does without. For one event loop.
"""

from datetime import datetime, timedelta

from icdc_api import naming, report_text
from icdc_api.runs import Failure
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import pods
from icdc_operator.core.observed import Action
from icdc_operator.manifests.metadata import ANNOTATION_EPOCH, ANNOTATION_RUN_ID

Key = tuple[str, str]
"""Namespace and name of a pipeline."""

DENIAL_SECONDS = 300.0
"""How long it is known what could not be done, unless it is tried again: longer than any wait
between two tries."""

_KEPT_ANNOTATIONS = (report_text.ANNOTATION_REPORT, ANNOTATION_RUN_ID, ANNOTATION_EPOCH)
_KEPT_METADATA = ("name", "creationTimestamp", "deletionTimestamp")


class Memory:
    """At most one ended pod, one refused run and one denied action of each pipeline."""

    def __init__(self) -> None:
        self._ended: dict[Key, tuple[str, Resource]] = {}
        self._refused: dict[Key, tuple[int, Failure]] = {}
        self._denied: dict[Key, tuple[Action, Failure, datetime]] = {}

    def note_pod(self, pod: Resource) -> None:
        """Keeps what a driver pod says that has ended or is asked to; others are let go."""
        metadata = pod["metadata"]
        annotations = metadata.get("annotations") or {}
        pipeline = (metadata.get("labels") or {}).get(naming.LABEL_PIPELINE)
        run_id = annotations.get(ANNOTATION_RUN_ID)
        ending = pods.is_terminating(pod) or not pods.may_write(pod)
        if not pipeline or not run_id or not ending:
            return
        key = (metadata["namespace"], pipeline)
        known = self._ended.get(key)
        if known is not None and _epoch(known[1]) > _epoch(pod):
            return
        kept = {name: metadata[name] for name in _KEPT_METADATA if name in metadata}
        kept["annotations"] = {n: annotations[n] for n in _KEPT_ANNOTATIONS if n in annotations}
        spec = {"restartPolicy": (pod.get("spec") or {}).get("restartPolicy")}
        slim = {"kind": "Pod", "metadata": kept, "spec": spec, "status": pod.get("status")}
        self._ended[key] = (run_id, slim)

    def ended_pods(self, key: Key, run_id: str | None) -> dict[str, Resource]:
        """The ended pod of that run, by run id; those of other runs are forgotten."""
        known = self._ended.get(key)
        if known is None:
            return {}
        if known[0] != run_id:
            del self._ended[key]
            return {}
        return {known[0]: known[1]}

    def refuse(self, key: Key, epoch: int, failure: Failure) -> None:
        """Keeps why the run of that epoch could not be created."""
        self._refused[key] = (epoch, failure)

    def refusal(self, key: Key, epoch: int | None) -> Failure | None:
        """Why the run of that epoch could not be created; of other runs it is forgotten."""
        known = self._refused.get(key)
        if known is None:
            return None
        if known[0] != epoch:
            del self._refused[key]
            return None
        return known[1]

    def deny(self, key: Key, action: Action, failure: Failure, now: datetime) -> None:
        """Keeps why the action is not allowed."""
        self._denied[key] = (action, failure, now)

    def allow(self, key: Key, action: Action) -> None:
        """The action was carried out."""
        known = self._denied.get(key)
        if known is not None and known[0] == action:
            del self._denied[key]

    def denial(self, key: Key, now: datetime) -> Failure | None:
        """Why an action is not allowed; forgotten where it is no longer asked for."""
        known = self._denied.get(key)
        if known is None:
            return None
        if now - known[2] > timedelta(seconds=DENIAL_SECONDS):
            del self._denied[key]
            return None
        return known[1]

    def forget(self, key: Key) -> None:
        """The pipeline is gone."""
        self._denied.pop(key, None)
        self._ended.pop(key, None)
        self._refused.pop(key, None)


def _epoch(pod: Resource) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(ANNOTATION_EPOCH, "")
    return int(text) if text.isdecimal() else 0
