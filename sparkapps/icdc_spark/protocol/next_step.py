"""Which step a table needs next. Pure: no Spark, no OpenSearch, no clock.

The rules are those of the protocol: an open intent is replayed exactly before anything newer;
what cannot be known any more is a gap and never silence; a spec or schema under which documents
would differ is rebuilt, not patched.
"""

from dataclasses import dataclass
from enum import StrEnum

from icdc_api.errors import Gap, IncompatibleSchema, TargetInvalid
from icdc_spark.protocol.state_document import Intent, IntentKind, Phase, StateDocument
from icdc_spark.protocol.state_parts import MAX_MISCOUNTS


class StepKind(StrEnum):
    """What is to be done next for one table."""

    IDLE = "Idle"
    EXPORT = "Export"
    BEGIN = "Begin"
    REPLAY = "Replay"
    CHANGELOG = "Changelog"
    COMPLETE = "Complete"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step. `reason` is for events and `icdc plan`: why this and not the next cheaper one."""

    kind: StepKind
    from_id: str | None = None
    to_id: str | None = None
    intent: Intent | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Policies:
    """The parts of the spec that decide between rebuilding and stopping."""

    reexport_on_gap: bool
    reexport_on_incompatible_schema: bool
    export_only: bool
    stream_only: bool
    resync_nonce: int
    """0 unless a re-export of this very table is asked for."""
    resync_id: int | None = None
    """Which request that is; None where nobody knows whether it is one that was honoured."""

    def owe_reexport(self, state: StateDocument) -> bool:
        """Whether the re-export that is asked for has not been done yet."""
        if self.resync_nonce == 0:
            return False
        if self.resync_id is None:
            return state.resync_nonce != self.resync_nonce
        return state.resync_id != self.resync_id


@dataclass(frozen=True, kw_only=True)
class View:
    """All that the decision looks at; snapshot ids are strings, None is the empty table."""

    state: StateDocument | None
    table: str
    table_uuid: str
    head: str | None
    start: str | None
    """Where StreamOnly begins; ignored otherwise."""
    document_spec: str
    spec_change: str | None
    """Why documents already written would differ under the present spec; None if they would not."""
    readable: frozenset[str]
    """Those of the snapshots that the state names which can still be read."""
    index_loss: str | None
    """Why index and state document do not belong together any more; None if they do."""


def next_step(view: View, policies: Policies) -> Step:
    """The next step of the table; raises Gap or IncompatibleSchema where the policy is Stop."""
    state = view.state
    if state is None or (state.applied is None and state.intent is None):
        return _first(view, policies)
    rebuilding = state.intent is not None and state.intent.kind is IntentKind.EXPORT
    if not rebuilding:
        lost = _loss(view, policies)
        if lost:
            return _after_gap(view, policies, lost)
    swapping = state.intent is not None and state.intent.phase is Phase.SWAPPING
    if _resync_asked(view, policies) and not (swapping and not view.index_loss):
        # Before any replay: what is open may be what can never be finished, and is abandoned. An
        # index that is complete is served first, which takes one request.
        return Step(kind=StepKind.EXPORT, to_id=view.head, reason="a re-export was asked for")
    if state.intent is not None:
        return _replay(view, state.intent, policies)
    if view.spec_change:
        return _after_spec_change(view, policies, view.spec_change)
    applied = state.applied.snapshot_id if state.applied else None
    if policies.export_only:
        return Step(kind=StepKind.COMPLETE)
    if applied == view.head:
        return Step(kind=StepKind.IDLE)
    if view.head is None:
        return Step(kind=StepKind.EXPORT, reason="the table has no snapshot any more")
    return Step(kind=StepKind.CHANGELOG, from_id=applied, to_id=view.head)


def _resync_asked(view: View, policies: Policies) -> bool:
    """Whether a re-export was asked for and not yet done: also how a person answers a Stop."""
    return view.state is not None and policies.owe_reexport(view.state)


def _first(view: View, policies: Policies) -> Step:
    if policies.stream_only:
        return Step(kind=StepKind.BEGIN, to_id=view.start, reason="the mode is StreamOnly")
    return Step(kind=StepKind.EXPORT, to_id=view.head, reason="the table was never exported")


def _loss(view: View, policies: Policies) -> str | None:
    """Why the changes since the applied snapshot can no longer be known; None if they can."""
    state = view.state
    if state is None:
        return None
    if state.source.uuid != view.table_uuid:
        return "the table was dropped and created again (its uuid changed)"
    if view.index_loss:
        return view.index_loss
    applied = state.applied.snapshot_id if state.applied else None
    needed = [applied]
    if state.intent is not None:
        needed += [state.intent.from_, state.intent.to]
    gone = [each for each in needed if each is not None and each not in view.readable]
    if state.intent is None and (applied == view.head or policies.export_only):
        # Nothing is to be read from the applied snapshot on.
        return None
    return f"snapshot {gone[0]} has expired or was removed" if gone else None


def _after_gap(view: View, policies: Policies, lost: str) -> Step:
    if policies.reexport_on_gap or _resync_asked(view, policies):
        return Step(kind=StepKind.EXPORT, to_id=view.head, reason=f"gap: {lost}")
    raise Gap(
        f"Table {view.table}: {lost}, so the changes since the last applied snapshot are unknown. "
        "Raise spec.resync.nonce to export the table again, or set changelog.onGap to Reexport."
    )


def _after_spec_change(view: View, policies: Policies, change: str) -> Step:
    if policies.reexport_on_incompatible_schema or _resync_asked(view, policies):
        return Step(kind=StepKind.EXPORT, to_id=view.head, reason=f"documents differ: {change}")
    raise IncompatibleSchema(
        f"Table {view.table}: {change}, so documents already written would differ. Raise "
        "spec.resync.nonce to export the table again, or set changelog.onIncompatibleSchema to "
        "Reexport."
    )


def _replay(view: View, intent: Intent, policies: Policies) -> Step:
    if intent.kind is not IntentKind.EXPORT:
        if view.spec_change:
            # Half of the batch is written under the old spec: a replay could not be exact.
            return _after_spec_change(view, policies, view.spec_change)
        return Step(
            kind=StepKind.REPLAY,
            from_id=intent.from_,
            to_id=intent.to,
            intent=intent,
            reason="a batch was under way",
        )
    anew = _reason_to_begin_anew(view, intent)
    if anew:
        # Nothing of this export is visible to readers yet: it is begun anew, not a gap.
        return Step(kind=StepKind.EXPORT, to_id=view.head, reason=anew)
    return Step(
        kind=StepKind.REPLAY, to_id=intent.to, intent=intent, reason="an export was under way"
    )


def _reason_to_begin_anew(view: View, intent: Intent) -> str | None:
    """Why an open export is of no use; raises TargetInvalid where another one would be none."""
    if view.spec_change:
        return f"documents differ: {view.spec_change}"
    if intent.miscounts >= MAX_MISCOUNTS:
        raise TargetInvalid(
            f"Table {view.table}: index {intent.index}, like the one before it, does not hold what "
            "was written into it: something else writes into or deletes from indices of that name "
            "(a job or a policy on a wildcard, an ingest pipeline). Stop it, then raise "
            "spec.resync.nonce to export the table again."
        )
    if intent.to is not None and intent.to not in view.readable:
        return "the exported snapshot expired"
    return view.index_loss
