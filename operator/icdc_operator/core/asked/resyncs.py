"""The request in `spec.resync`, which is honoured exactly once. Pure.

A nonce is honoured with the mode and the tables that it came with. So the request is recorded in
the status with the first run that is planned for it, and from then on the record counts: a person
who later removes mode or tables from the spec asks for nothing.

    spec.resync                        status.observedTriggers.resync     consequence
    nonce 4, mode Verify               nonce 4, Verify, all               one comparison
    nonce 4 (mode was removed)         nonce 4, Verify, all               nothing
    nonce 5                            nonce 5, Export, all, id 1730...   one export of each table
    nonce 6, mode Rollback             nonce 6, Rollback, all, id 1731... one rollback of each table

The id identifies a request, because nonces repeat: a pipeline that is created again begins at 0,
while the state documents of its indices still hold the nonces of the one before.
"""

from icdc_api.job.run_files import Reexport
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import ResyncMode, RunState
from icdc_api.status.triggers import ObservedResync, ObservedTriggers


def is_new(status: PipelineStatus, spec: PipelineSpec) -> bool:
    """Return whether the nonce is above the one that was acted on; False before the first run."""
    before = status.observed_triggers
    # Before the first run nothing can be said: the status may be new, or lost. A nonce that was
    # honoured before the loss must not cost a second export.
    return before is not None and spec.resync.nonce > before.resync_nonce


def find_last_request(status: PipelineStatus, spec: PipelineSpec) -> ObservedResync | None:
    """Return the last request, whether it was acted on or not; None if there never was one."""
    before = status.observed_triggers
    recorded = None if before is None else before.resync
    if recorded is not None and not is_new(status, spec):
        return recorded
    # 0 is the default: nobody has asked for anything.
    if spec.resync.nonce == 0:
        return None
    resync = spec.resync
    return ObservedResync(nonce=resync.nonce, mode=resync.mode, tables=resync.tables)


def owes_rollback(status: PipelineStatus, spec: PipelineSpec) -> bool:
    """Return whether a rollback was requested, and no run has succeeded that was asked for it."""
    request = find_last_request(status, spec)
    if request is None or request.mode is not ResyncMode.ROLLBACK:
        return False
    if is_new(status, spec):
        return True
    first = request.id
    # Without an id no run makes it.
    return first is not None and not any(
        run.epoch >= first and run.state == RunState.SUCCEEDED and not run.kind.inspects
        for run in status.recent_runs
    )


def record_triggers(status: PipelineStatus, spec: PipelineSpec, *, epoch: int) -> ObservedTriggers:
    """Return the nonces of `spec` as acted on by the run of `epoch`, which is being planned."""
    before = status.observed_triggers or ObservedTriggers()
    resync, verified = find_last_request(status, spec), before.verified_nonce
    if resync is not None and is_new(status, spec):
        # The epoch of its first run identifies the request: no two runs share one.
        resync = resync.model_copy(update={"id": epoch})
        verified = 0  # of an earlier request, which may have had the same nonce
    return ObservedTriggers(
        restart_nonce=spec.restart_nonce,
        resync_nonce=spec.resync.nonce,
        verified_nonce=verified,
        resync=resync,
    )


def build_reexport(status: PipelineStatus, spec: PipelineSpec) -> Reexport | None:
    """Return the last re-export or rollback for a run's request; None if a comparison came last."""
    resync = find_last_request(status, spec)
    if resync is None or resync.mode.compares:
        return None
    back = True if resync.mode is ResyncMode.ROLLBACK else None
    return Reexport(nonce=resync.nonce, tables=resync.tables, id=resync.id, rollback=back)
