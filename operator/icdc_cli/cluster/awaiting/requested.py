"""Builds the request that is waited for from the pipeline as it is after the request.

It must not ask the cluster again: what the spec says later is another request.
"""

from typing import Any

from icdc_api.spec.changelog import Trigger
from icdc_api.spec.pipeline import Retry
from icdc_api.status.runs import ResyncMode
from icdc_cli.cluster.awaiting.requests import AwaitedRestart, AwaitedResync
from icdc_operator.cluster.kube.kinds import Resource


def build_resync(pipeline: Resource, mode: ResyncMode, tables: tuple[str, ...]) -> AwaitedResync:
    """Return the resync that was requested with this mode of these tables; of all if empty."""
    spec, status = pipeline["spec"], pipeline.get("status") or {}
    return AwaitedResync(
        spec["resync"]["nonce"],
        mode,
        tables,
        # Shown before the resync, so no news of it.
        before={table["name"]: table.get("message") for table in status.get("tables") or ()},
        generation=pipeline["metadata"]["generation"],
        continuous=_is_continuous(spec),
        policy=_read_retry(spec),
    )


def build_restart(pipeline: Resource) -> AwaitedRestart:
    """Return the new run that was requested."""
    spec = pipeline["spec"]
    return AwaitedRestart(
        spec["restartNonce"],
        pipeline["metadata"]["generation"],
        continuous=_is_continuous(spec),
        policy=_read_retry(spec),
    )


def _is_continuous(spec: dict[str, Any]) -> bool:
    return bool((spec.get("changelog") or {}).get("trigger") == Trigger.CONTINUOUS)


def _read_retry(spec: dict[str, Any]) -> Retry:
    """Return `spec.retry` as far as it says when a failure is one that somebody should know."""
    # Alone, as another version of the operator may have more fields.
    attempts = (spec.get("retry") or {}).get("maxAttempts")
    return Retry() if attempts is None else Retry(max_attempts=attempts)
