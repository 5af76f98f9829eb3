"""What `spec.resync` asks for, and that it is asked for once. Pure.

A nonce is honoured with the mode and the tables that it came with. So what it asks for is recorded
in the status with the first run that is planned for it, and from then on the record counts: a
person who tidies up the spec afterwards, and takes mode or tables out, asks for nothing.

    spec.resync                        status.observedTriggers.resync     what follows
    nonce 4, mode Verify               nonce 4, Verify, all               one comparison
    nonce 4 (mode was taken out)       nonce 4, Verify, all               nothing
    nonce 5                            nonce 5, Export, all, id 1730…     one export of each table

The id tells one request from another, because nonces repeat: a pipeline that is made again begins
at 0, while the state documents of its indices remember what the one before had asked for.
"""

from icdc_api.job import Reexport
from icdc_api.runs import ResyncMode
from icdc_api.spec import PipelineSpec
from icdc_api.status import PipelineStatus
from icdc_api.triggers import ObservedResync, ObservedTriggers


def is_new(known: PipelineStatus, spec: PipelineSpec) -> bool:
    """Whether the nonce is above the one that was acted on; not before one was seen at all."""
    before = known.observed_triggers
    return before is not None and spec.resync.nonce > before.resync_nonce


def last_request(known: PipelineStatus, spec: PipelineSpec) -> ObservedResync | None:
    """What was asked for last, be it acted on or not; None if nothing ever was."""
    before = known.observed_triggers
    recorded = None if before is None else before.resync
    if recorded is not None and not is_new(known, spec):
        return recorded
    if spec.resync.nonce == 0:
        return None
    resync = spec.resync
    return ObservedResync(nonce=resync.nonce, mode=resync.mode, tables=resync.tables)


def record_triggers(known: PipelineStatus, spec: PipelineSpec, *, epoch: int) -> ObservedTriggers:
    """The nonces as acted on by a run of that epoch, which is about to be planned."""
    before = known.observed_triggers or ObservedTriggers()
    resync, verified = last_request(known, spec), before.verified_nonce
    if resync is not None and is_new(known, spec):
        resync = resync.model_copy(update={"id": epoch})
        verified = 0  # of an earlier request, which may have had the same nonce
    return ObservedTriggers(
        restart_nonce=spec.restart_nonce,
        resync_nonce=spec.resync.nonce,
        verified_nonce=verified,
        resync=resync,
    )


def build_reexport(known: PipelineStatus, spec: PipelineSpec) -> Reexport | None:
    """What re-export the tables owe, for the request of a run; None where the last resync that
    was asked for is a comparison, or none was."""
    resync = last_request(known, spec)
    if resync is None or resync.mode != ResyncMode.EXPORT:
        return None
    return Reexport(nonce=resync.nonce, tables=resync.tables, id=resync.id)
