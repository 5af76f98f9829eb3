"""What spec and request say about rebuilding, stopping and switching back. Pure.

A request is owed by a table until its state document has recorded it. It must not know which step
follows: `icdc_spark.protocol.next_step` does.
"""

from dataclasses import dataclass

from icdc_spark.protocol.state_document import StateDocument


@dataclass(frozen=True, kw_only=True)
class Policies:
    """The parts of the spec that decide between rebuilding and stopping."""

    reexport_on_gap: bool
    """True if changelog.onGap is Reexport, False if it is Stop."""
    reexport_on_incompatible_schema: bool
    """The same for changelog.onIncompatibleSchema."""
    export_only: bool
    """True in the mode ExportOnly."""
    stream_only: bool
    """True in the mode StreamOnly."""
    resync_nonce: int
    """The nonce of a re-export of this very table; 0 unless one is asked for."""
    resync_id: int | None = None
    """The id of that request; None if it is not known whether it was honoured already."""
    is_rollback: bool = False
    """True if that request asks for a rollback instead."""
    is_new: bool = False
    """True if that request was made since the last run was planned."""
    is_named: bool = False
    """True if that request names its tables, this one among them."""

    def owe_reexport(self, state: StateDocument) -> bool:
        """Return whether a re-export is asked for that has not been done yet."""
        return not self.is_rollback and self._owe(state)

    def owe_rollback(self, state: StateDocument) -> bool:
        """Return whether a rollback is asked for that has not been done yet."""
        # It depends on what came before it, so it is not made where it may have been made already.
        return self.is_rollback and self.resync_id is not None and self._owe(state)

    def ends_with_export(self, state: StateDocument, *, is_trusted: bool) -> bool:
        """Return whether an export that begins now is the end of the request.

        Of a rollback it is where nothing is left to go back to: readers had no index yet, or the
        document is not `is_trusted` and may name any.
        """
        is_void = state.applied is None or not is_trusted
        return self.owe_reexport(state) or (is_void and self.owe_rollback(state))

    def _owe(self, state: StateDocument) -> bool:
        if self.resync_nonce == 0:
            return False
        if self.resync_id is None:
            return state.resync_nonce != self.resync_nonce
        return state.resync_id != self.resync_id
