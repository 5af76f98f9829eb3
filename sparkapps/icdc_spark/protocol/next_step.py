"""Decides the next step of a table. Pure: no Spark, no OpenSearch, no clock.

The rules are those of the protocol: an open intent is replayed exactly before anything newer;
what cannot be known any more is a gap and never silence; a spec or schema under which documents
would differ is rebuilt, not patched. The first line that applies decides:

    state document                    what else                        step
    none, or nothing applied          StreamOnly; readers have one     EXPORT, or Gap
    none, or nothing applied          mode StreamOnly                  BEGIN
    none, or nothing applied                                           EXPORT
    any                               the metadata is older than it    SourceUnavailable
    any that is trusted               a rollback is asked for          ROLLBACK (*), or
                                                                       RollbackRefused
    batch open, or none               table, index or snapshot lost    EXPORT, or Gap
    any                               a re-export is asked for         EXPORT (*)
    batch open                        documents would differ           EXPORT, or IncompatibleSchema
    batch open                                                         REPLAY
    export open                       of no use any more               EXPORT, or TargetInvalid
    export open                                                        REPLAY
    no intent                         documents would differ           EXPORT, or IncompatibleSchema
    no intent, it began StreamOnly    another mode by now              EXPORT
    no intent                         mode ExportOnly                  COMPLETE
    no intent, applied = current      nothing was committed            IDLE
    no intent                         the table has no snapshot        EXPORT, of nothing
    no intent                                                          CHANGELOG, applied to current

(*) Not while a complete index is being swapped in: it is served first.
"""

from icdc_api.errors import (
    Gap,
    IncompatibleSchema,
    RollbackRefused,
    SourceUnavailable,
    TargetInvalid,
)
from icdc_api.status.table_parts import GAP_CAUSE
from icdc_spark.protocol.policies import Policies
from icdc_spark.protocol.state_document import Intent, IntentKind, IntentPhase, StateDocument
from icdc_spark.protocol.state_parts import MAX_MISCOUNTS
from icdc_spark.protocol.steps import Step, StepInputs, StepKind


def choose_step(inputs: StepInputs, policies: Policies) -> Step:
    """Return the next step of the table; see the table at the top of the module.

    Raises Gap or IncompatibleSchema where the policy is Stop, TargetInvalid where a new export
    would be as useless as the open one, SourceUnavailable where the metadata is an older copy.
    """
    state = inputs.state
    if state is None or (state.applied is None and state.intent is None):
        return _choose_first_step(inputs, policies)
    _refuse_older_metadata(inputs, policies)
    # An index that is complete is served first, which takes one request.
    is_swapping = state.intent is not None and state.intent.phase is IntentPhase.SWAPPING
    serves_first = is_swapping and not inputs.index_loss
    # Before all that concerns the index which is left: it may be why somebody asks.
    # A document that is a copy may name an index as earlier that was written since: it is a gap.
    if policies.owe_rollback(state) and inputs.is_trusted and not serves_first:
        return _roll_back(inputs, state, policies)
    # An open export needs nothing of the old index or snapshot: a loss there changes nothing.
    rebuilding = state.intent is not None and state.intent.kind is IntentKind.EXPORT
    lost = None if rebuilding else _find_loss(inputs, policies)
    if lost:
        return _handle_gap(inputs, policies, lost)
    if _is_resync_asked(inputs, policies) and not serves_first:
        # Before any replay: the open intent may be one that can never be finished; it is abandoned.
        return Step(kind=StepKind.EXPORT, to_id=inputs.head, reason="a re-export was requested")
    if state.intent is not None:
        return _replay(inputs, state.intent, policies)
    if inputs.spec_change:
        return _handle_spec_change(inputs, policies, inputs.spec_change)
    return _go_on(inputs, state, policies)


def _go_on(inputs: StepInputs, state: StateDocument, policies: Policies) -> Step:
    """Return the next step of a table whose documents are as they should be."""
    if state.lacks_rows and not policies.stream_only:
        reason = "it began with mode StreamOnly, so rows from before are missing"
        return Step(kind=StepKind.EXPORT, to_id=inputs.head, reason=reason)
    applied = state.applied.snapshot_id if state.applied else None
    if policies.export_only:
        return Step(kind=StepKind.COMPLETE)
    if applied == inputs.head:
        return Step(kind=StepKind.IDLE)
    # There is no snapshot to read a difference to; an empty index is the same as the table.
    if inputs.head is None:
        return Step(kind=StepKind.EXPORT, reason="the table has no snapshot any more")
    return Step(kind=StepKind.CHANGELOG, from_id=applied, to_id=inputs.head)


def _is_resync_asked(inputs: StepInputs, policies: Policies) -> bool:
    """Return whether a re-export is still to be done: also how a person answers a Stop."""
    return inputs.state is not None and policies.owe_reexport(inputs.state)


def _choose_first_step(inputs: StepInputs, policies: Policies) -> Step:
    if policies.stream_only:
        if inputs.index_loss:  # An empty index would take the place of the one that readers use.
            return _handle_gap(inputs, policies, inputs.index_loss)
        return Step(kind=StepKind.BEGIN, to_id=inputs.start, reason="the mode is StreamOnly")
    return Step(kind=StepKind.EXPORT, to_id=inputs.head, reason="the table was never exported")


def _refuse_older_metadata(inputs: StepInputs, policies: Policies) -> None:
    """Raise SourceUnavailable if the table's metadata is from before what was already read of it.

    A catalog behind a cache, or one of several replicas, may answer so. The newer snapshots are
    missing in it, which is no proof that they expired: a gap would have the table exported again.
    Sequence numbers only grow, also in a table that is rolled back, so one that was really put
    back to older metadata is taken up again with its next commits, or with a re-export that is
    asked for.

        applied 77 (number 8)   metadata up to number 7                      older
        applied 77 (number 8)   metadata up to number 8, no 78 of the batch  older
        applied 77 (number 8)   metadata up to number 9, without 77          77 has expired
    """
    state = inputs.state
    if state is None or state.applied is None or state.source.uuid != inputs.table_uuid:
        return
    # A complete export reads the table no more.
    if policies.export_only or _is_resync_asked(inputs, policies):
        return
    applied, last = state.applied.sequence_number, inputs.last_sequence_number
    intent = state.intent
    to = intent.to if intent is not None and intent.kind is IntentKind.CHANGELOG else None
    # In format 1 all numbers are 0 and order nothing.
    is_before_intent = to is not None and to not in inputs.readable and 0 < last <= applied
    if last < applied or is_before_intent:
        raise SourceUnavailable(
            f"Table {inputs.table}: the catalog answers with metadata that is older than what was "
            f"already read (sequence number {last}; the index has {applied}), as a cache or a slow "
            "replica may do. The run tries again. If the table was restored to that state, "
            "raise spec.resync.nonce to export it again."
        )


def _roll_back(inputs: StepInputs, state: StateDocument, policies: Policies) -> Step:
    # A complete export reads the table no more.
    readable = None if policies.export_only else inputs.readable
    earlier, unfit = state.earlier, state.find_reason_to_stay(inputs.table_uuid, readable)
    if earlier and earlier.index == state.begun_index and not policies.stream_only:
        unfit = unfit or f"{earlier.index} began with mode StreamOnly, so it lacks rows"
    # Named, a table is switched back also where only another export brings it up to date. Before
    # its first export is complete there is nothing that anybody could mean.
    if unfit and (state.applied is None or not policies.is_named):
        return Step(kind=StepKind.ROLLBACK, reason=f"a rollback was requested, but {unfit}")
    refusal = inputs.rollback_refusal if earlier else unfit
    if earlier is None or refusal:
        raise RollbackRefused(
            f"Table {inputs.table}: readers stay on index {state.index}: {refusal}. The table "
            "waits until that is changed, or another request of spec.resync replaces the rollback."
        )
    reason = f"a rollback to {earlier.index} was requested"
    return Step(kind=StepKind.ROLLBACK, index=earlier.index, reason=reason)


def _find_loss(inputs: StepInputs, policies: Policies) -> str | None:
    """Return why the changes since the applied snapshot are unknown, as a clause; None if known."""
    state = inputs.state
    if state is None:
        return None
    if state.source.uuid != inputs.table_uuid:
        return "the table was dropped and created again (its uuid changed)"
    if inputs.index_loss:
        return inputs.index_loss
    applied = state.applied.snapshot_id if state.applied else None
    # A replay reads both snapshots of its intent again.
    needed = [applied]
    if state.intent is not None:
        needed += [state.intent.from_, state.intent.to]
    lost = [snapshot for snapshot in needed if snapshot and snapshot not in inputs.readable]
    if state.intent is None and (applied == inputs.head or policies.export_only):
        # No difference is to be read, so the applied snapshot may have expired.
        return None
    return f"snapshot {lost[0]} has expired or was removed" if lost else None


def _handle_gap(inputs: StepInputs, policies: Policies, lost: str) -> Step:
    if policies.reexport_on_gap or _is_resync_asked(inputs, policies):
        return Step(kind=StepKind.EXPORT, to_id=inputs.head, reason=f"{GAP_CAUSE}{lost}")
    raise Gap(
        f"Table {inputs.table}: {lost}, so the changes since the last applied snapshot "
        "are unknown. "
        "Raise spec.resync.nonce to export the table again, or set changelog.onGap to Reexport."
    )


def _handle_spec_change(inputs: StepInputs, policies: Policies, change: str) -> Step:
    if policies.reexport_on_incompatible_schema or _is_resync_asked(inputs, policies):
        return Step(kind=StepKind.EXPORT, to_id=inputs.head, reason=f"documents differ: {change}")
    raise IncompatibleSchema(
        f"Table {inputs.table}: {change}, so documents already written would differ. Raise "
        "spec.resync.nonce to export the table again, or set changelog.onIncompatibleSchema to "
        "Reexport."
    )


def _replay(inputs: StepInputs, intent: Intent, policies: Policies) -> Step:
    if intent.kind is not IntentKind.EXPORT:
        if inputs.spec_change:
            # Half of the batch is written under the old spec: a replay could not be exact.
            return _handle_spec_change(inputs, policies, inputs.spec_change)
        return Step(
            kind=StepKind.REPLAY,
            from_id=intent.from_,
            to_id=intent.to,
            intent=intent,
            reason="a batch was under way",
        )
    if anew := _find_reason_to_abandon(inputs, intent):
        # Nothing of this export is visible to readers yet: it is begun anew, not a gap.
        return Step(kind=StepKind.EXPORT, to_id=inputs.head, reason=anew)
    return Step(
        kind=StepKind.REPLAY, to_id=intent.to, intent=intent, reason="an export was under way"
    )


def _find_reason_to_abandon(inputs: StepInputs, intent: Intent) -> str | None:
    """Return why the open export is of no use, as a clause; None where it is replayed.

    Raises TargetInvalid where another export would be of no use either.
    """
    if inputs.spec_change:
        return f"documents differ: {inputs.spec_change}"
    if intent.miscounts >= MAX_MISCOUNTS:
        fault = f" ({inputs.state.fault})" if inputs.state and inputs.state.fault else ""
        raise TargetInvalid(
            f"Table {inputs.table}: index {intent.index}, like the one before it, does not hold "
            f"what was written into it{fault}: something else writes into or deletes from indices "
            "of that name (a job or a policy on a wildcard, an ingest pipeline). Stop it, then "
            "raise spec.resync.nonce to export the table again. If a difference from its rows is "
            "as you want it, also set changelog.proveBeforeSwitch to Count, which compares none."
        )
    if intent.to is not None and intent.to not in inputs.readable:
        return "the exported snapshot expired"
    return inputs.index_loss
