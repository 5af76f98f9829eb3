"""Build the Kubernetes Event about a pipeline. Pure; `ClusterApi.create_event` posts it."""

from datetime import UTC, datetime

from icdc_api import naming
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.kinds import Resource

MAX_NOTE = 1000
"""Most bytes of an Event's note; the API server accepts 1024."""


def build_event(
    pipeline: Resource, *, name: str, reason: str, message: str, warning: bool
) -> Resource:
    """Return an Event of events.k8s.io/v1 in the namespace of the pipeline that it regards."""
    about = pipeline["metadata"]
    # Without `series`: an Event that repeats has the same name (`posting`), so it exists once.
    return {
        "apiVersion": kinds.EVENT.api_version,
        "kind": kinds.EVENT.name,
        "metadata": {
            "name": name,
            "namespace": about["namespace"],
            "labels": {
                naming.LABEL_MANAGED_BY: naming.MANAGED_BY,
                naming.LABEL_PIPELINE: about["name"],
            },
        },
        # With microseconds always: the API server parses no time of this type without them.
        "eventTime": datetime.now(UTC).isoformat(timespec="microseconds"),
        "reportingController": f"{naming.GROUP}/{naming.MANAGED_BY}",
        "reportingInstance": naming.MANAGED_BY,
        "action": "Reconcile",
        "reason": reason,
        "note": _cut_note(message),
        "type": "Warning" if warning else "Normal",
        "regarding": {
            "apiVersion": naming.API_VERSION,
            "kind": naming.KIND,
            "namespace": about["namespace"],
            "name": about["name"],
            "uid": about["uid"],
        },
    }


def _cut_note(message: str) -> str:
    """Return `message` within the limit of the API server, which counts bytes."""
    return message.encode()[:MAX_NOTE].decode(errors="ignore")
