"""Statuses of a pipeline around a requested resync, as documents: what `--wait` reads."""

from typing import Any

from icdc_api.errors import TargetUnavailable
from icdc_api.status.runs import Failure
from icdc_testing.kube.api_stub import Object
from icdc_testing.kube.stored_pipelines import make_condition

PLANNED, APPLIED = "2026-03-01T12:00:00Z", "2026-03-01T12:05:00Z"
FAILURE = Failure.of(TargetUnavailable("down")).to_resource()
STALLED = make_condition("Stalled", "True", message="failed 8 times in a row: down")


def run(state: str, epoch: int = 50, **more: Any) -> Object:
    """Return a run, of the resync from epoch 50 on."""
    name = {"name": f"shop-e{epoch}-1", "kind": "Export", "sequence": epoch, "generation": 1}
    return {**name, "epoch": epoch, "plannedAt": PLANNED, "state": state, **more}


def make_table(state: str = "Streaming", name: str = "orders", **more: Any) -> Object:
    """Return a table of the status."""
    return {"name": f"shop.{name}", "index": name, "state": state, **more}


def make_taken_up(*tables: Object, mode: str = "Export", verified: int = 0, **more: Any) -> Object:
    """Return a status in which the run of epoch 50 is the first one of resync 5."""
    resync = {"nonce": 5, "mode": mode, "id": 50}
    triggers = {"resyncNonce": 5, "verifiedNonce": verified, "resync": resync, "restartNonce": 5}
    return {
        "observedGeneration": 1,
        "observedTriggers": triggers,
        "tables": list(tables or (make_table(), make_table(name="customers"))),
        **more,
    }


def make_compared(name: str = "orders", **more: Any) -> Object:
    """Return a table that the comparison of the resync has answered."""
    return make_table(name=name, verification={"nonce": 5, "at": APPLIED, **more})


DONE = make_table(appliedAt=APPLIED, appliedSnapshotId="9")
OLD = make_table(appliedAt="2026-02-01T00:00:00Z", appliedSnapshotId="8")
GAP: Object = {"reason": "Gap", "message": "the changes are lost"}
BEFORE: Object = {
    "observedGeneration": 1,
    "observedTriggers": {"resyncNonce": 4, "restartNonce": 4},
    "tables": [make_table("Stalled", **GAP)],
    "recentRuns": [run("Succeeded", 40)],
}
EQUAL = make_compared(equal=True, documents=3)
DIFFERENT = make_compared(equal=False, missing=2, extra=0, different=0)
ENDED: Object = {"recentRuns": [run("Succeeded")]}
