"""What must hold at every moment, judged from the model alone: it knows no code of the product.

    statement                                            checked
    index = table at S, or at E of the open batch        whenever the index or its document changes
    what readers see was complete when it was served     when the alias moves to an index
    no index that readers use is deleted                 when the product deletes an index
    an export only where one is due                      when an export is recorded
    no error of the program itself (`Bug`)               when one is made

A document that other hands touched is not judged until the product writes it again, nor is an index
that was damaged as a whole: what the product owes then is a new one, see `World.find_divergence`.
"""

from typing import TYPE_CHECKING, Any

from icdc_testing.simulation.model.stored_index import StoredIndex
from icdc_testing.simulation.schedule import BEGIN

if TYPE_CHECKING:
    from icdc_testing.simulation.world import World

ALIAS = "orders"
STATE = "icdc-state"
QUESTION_SECONDS = 5.0
"""The longest from the product's question who uses an index to its request to delete it."""


class BrokenPromiseError(BaseException):
    """A statement of the oracle does not hold. No handler of the product may catch it."""


class Oracle:
    """Remembers which batches may be in which index in part."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._partial: dict[str, set[str | None]] = {}
        """By UUID of an index: the later snapshots of batches that were given up there."""
        self._last: dict[str, Any] | None = None
        self.exports = 0
        """Exports that were recorded."""
        self.due: dict[str, float] = {}
        """Why an export may begin, and since when."""
        self._begun = 0.0
        self.is_rolled_back = False
        """Whether dead letters are partly of an index that readers left for an earlier one, or that
        was given up before they saw it."""
        self.refused_before: dict[int, int] = {}
        """Rows that the index to which readers went back had refused, and the one that they left
        had not: they have no dead letter until they change."""
        self.moved_by_hand: dict[str, float] = {}
        """When other hands moved the alias to an index, by its name."""

    def read_state(self) -> dict[str, Any] | None:
        """Return the state document as it is stored."""
        index = self._world.target.find(STATE)
        document = index.documents.get(ALIAS) if index else None
        return document.source if document else None

    def check(self) -> None:
        """Raise BrokenPromiseError where the index is neither table nor batch."""
        state = self.read_state()
        if state is not self._last:
            self._note(self._last, state)
            self._last = state
        if state is None or state["applied"] is None or state["index"] is None:
            return
        index = self._world.target.indices.get(state["index"])
        if index is None or index.uuid != state["indexUuid"] or index.damaged:
            return
        allowed = {state["applied"]["snapshotId"], *self._partial.get(index.uuid, ())}
        intent = state["intent"]
        if intent is not None and intent["indexUuid"] == index.uuid:
            allowed.add(intent["to"])
        self._compare(index, allowed)

    def check_served(self, index: StoredIndex) -> None:
        """Raise BrokenPromiseError where the alias moves to an index that is not complete."""
        state = self.read_state()
        if state is None or index.damaged:
            return
        intent, to = state["intent"], None
        exports = intent is not None and intent["kind"] == "Export"
        if exports and intent["indexUuid"] == index.uuid:
            to = intent["to"]
        elif state["applied"] is not None and state["indexUuid"] == index.uuid:
            return
        else:
            raise BrokenPromiseError(f"readers were led to {index.name}, which nobody filled")
        self._compare(index, {to})

    def check_deleted(self, name: str, *, is_late: bool) -> None:
        """Raise BrokenPromiseError where the product deletes an index that readers use."""
        if ALIAS not in self._world.target.indices[name].aliases:
            return
        moved = self._world.schedule.now - self.moved_by_hand.get(name, -QUESTION_SECONDS)
        # OpenSearch deletes under no condition: the product can only ask for aliases before.
        asked_before = name in self.moved_by_hand and (is_late or moved < QUESTION_SECONDS)
        if not asked_before:
            raise BrokenPromiseError(f"index {name}, which readers use, was deleted")

    def check_bug(self, message: str) -> None:
        """Raise BrokenPromiseError for an error of the program itself, though the step is retried.

        What a process meets that was killed is no such error: nothing that it does has an effect.
        """
        if not self._world.schedule.current.dead:
            raise BrokenPromiseError(f"an error of the program itself: {message}")

    def _note(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        """Remember a batch that was given up: its index may hold a part of it for good."""
        old = before["intent"] if before else None
        new = after["intent"] if after else None
        if old is not None and old != new and (new is None or old["ordinal"] != new["ordinal"]):
            applied = after["applied"] if after else None
            finished = applied is not None and applied["ordinal"] == old["ordinal"]
            if not finished and old["kind"] != "Export":
                self._partial.setdefault(old["indexUuid"], set()).add(old["to"])
            elif not finished and new is None:
                # Readers stay where they are, and rows have dead letters of the export.
                self._note_rollback(after)
        self._note_export(before, after)
        if before and after and before["indexUuid"] != after["indexUuid"]:
            self.is_rolled_back, self.refused_before = False, {}
            if old is None or old["indexUuid"] != after["indexUuid"]:
                self._note_rollback(after)

    def _note_rollback(self, state: dict[str, Any] | None) -> None:
        applied = state["applied"] if state else None
        snapshot = applied["snapshotId"] if applied else None
        rows = self._world.lake.rows[int(snapshot)] if snapshot else {}
        index = self._world.target.indices.get(f"{ALIAS}-dead-letters")
        stored = index.documents if index else ()
        self.is_rolled_back = True
        self.refused_before |= {
            key: value for key, value in rows.items() if value < 0 and f"k{key}" not in stored
        }

    def _note_export(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        """Raise BrokenPromiseError where an export begins that nothing asks for."""
        old = before["intent"] if before else None
        new = after["intent"] if after else None
        exported = old is not None and old["kind"] == "Export"
        exports = new is not None and new["kind"] == "Export"
        if exported and not exports and after is not None:
            # It has answered whatever was asked before its run was planned.
            self.due = {why: at for why, at in self.due.items() if at > self._begun}
        if (
            new is None
            or not exports
            or (old is not None and exported and old["ordinal"] == new["ordinal"])
        ):
            return
        # Its epoch is the time at which its run was planned.
        planned = after["owner"]["epoch"] / 1000 - BEGIN.timestamp() if after else 0.0
        self.exports, self._begun = self.exports + 1, planned
        first = before is None or before["applied"] is None
        if not (first or exported or self.due):
            raise BrokenPromiseError("an export began that nothing had asked for")

    def _compare(self, index: StoredIndex, allowed: set[str | None]) -> None:
        rows = self._world.lake.rows
        tables = [expect_documents(rows[int(number)]) if number else {} for number in allowed]
        skipped = index.touched | index.unjudged
        there = {key: document.source.get("value") for key, document in index.documents.items()}
        for key in {*there, *(key for table in tables for key in table)} - skipped:
            have = there.get(key)
            may = [table.get(key) for table in tables]
            if have in may:
                continue
            # The older document of a refused row stays until the batch is through, and a refused
            # row has none: in between either is seen.
            raise BrokenPromiseError(
                f"{index.name} has {have} under {key}, the table {may} "
                f"at {sorted(map(str, allowed))}"
            )


def expect_documents(rows: Any) -> dict[str, int]:
    """Return the documents of a snapshot: refused rows have none."""
    return {f"k{key}": value for key, value in rows.items() if value >= 0}
