"""The part of the state document that is about earlier indices, which readers may get again.

An index is recorded when an export is about to replace it, and once readers use it again the record
is removed: what it says is true only while nobody writes the index. Example, by number:

    served            retained, last used at the end    next
    1                 -                                 the spec changes
    1, 2 is filled    1                                 2 is complete
    2                 1                                 a rollback
    1                 2                                 the spec changes
    3                 2, 1                              a rollback
    1                 2, 3

With two indices to retain, the next export would remove 2: readers used it least recently. What
cannot be used again counts for nothing: readers get the last index that can, and it goes last. It
must not know whether an index is still as it was recorded.
"""

from collections.abc import Container, Iterable
from typing import Any, Self

from icdc_api import naming
from icdc_api.errors import Bug
from icdc_spark.protocol.state_parts import RecordedDuplicates, RetainedIndex, Shards, Totals
from icdc_spark.protocol.stored_fields import (
    CONTRACT_VERSION,
    MAX_PREVIOUS_INDICES,
    MAX_RETAINED_INDICES,
    StoredFields,
)

PROBLEM_CHARACTERS = 300
"""Of a longer problem the rest is not stored."""


class EarlierIndices(StoredFields):
    """The fields of the state document, with the changes that are about earlier indices."""

    @property
    def last_number(self) -> int:
        """The greatest number of a physical index that was ever used; 0 if there was none."""
        names = [self.index, self.intent.index if self.intent else None, *self.previous_indices]
        return max(self.last_index_number, *(self._parse_number(name) for name in names))

    @property
    def earlier(self) -> RetainedIndex | None:
        """The index that a rollback gives to readers: of those that can be used again the last.

        While an export is open it may be the served one, which readers then keep.
        """
        usable = [record for record in self.retained if record.problem is None]
        return usable[-1] if usable else None

    @property
    def is_rolled_back(self) -> bool:
        """True from a rollback until the table's changes up to then are applied again."""
        if self.applied is None or self.rolled_back_number is None:
            return False
        # In format 1 all sequence numbers are 0, so only the first batch is known to follow one.
        is_first = self.last_ordinal > self.applied.ordinal
        return is_first or self.applied.sequence_number < self.rolled_back_number

    @property
    def is_switching(self) -> bool:
        """True from a rollback until a batch begins: readers may not have the index yet."""
        if self.applied is None or self.rolled_back_number is None or self.intent is not None:
            return False
        return self.last_ordinal > self.applied.ordinal

    @property
    def lacks_rows(self) -> bool:
        """True if readers have an index that began without an export (StreamOnly)."""
        return self.index is not None and self.index == self.begun_index

    def find_reason_to_stay(self, table_uuid: str, readable: Container[str] | None) -> str | None:
        """Return why a rollback of all tables is not about this one, as a clause; None if it is.

        `readable`: the snapshots that can still be read; None where none will be.
        """
        earlier = self.earlier
        if earlier is None and self.retained:
            last = self.retained[-1]
            return f"{last.index} cannot be used again, because {last.problem}"
        if earlier is None:
            return "no earlier index of it is recorded (see sink.opensearch.keepIndices)"
        if earlier.source.uuid != table_uuid:
            return f"the table was created again since readers used {earlier.index}"
        snapshot = earlier.applied.snapshot_id
        if snapshot and readable is not None and snapshot not in readable:
            return f"snapshot {snapshot}, which {earlier.index} equals, has expired or was removed"
        return None

    def with_previous(self, indices: Iterable[str], *, now: str) -> Self:
        """Remember indices that readers may be using now, whatever the document had of them."""
        # The current index is served by definition, and must never be taken for an older one.
        older = {*self.previous_indices, *indices} - {self.index}
        return self._with(now, previous_indices=self._pick_newest(older))

    def without_previous(self, index: str, *, now: str) -> Self:
        """Forget an older physical index that was removed."""
        left = [name for name in self.previous_indices if name != index]
        retained = [record for record in self.retained if record.index != index]
        return self._with(now, previous_indices=left, retained=retained)

    def list_surplus(self, retained: int) -> list[str]:
        """Return the older indices but the last `retained` of them that readers used.

        First go those without a record, and those that cannot be used again, by number.
        """
        used = {r.index: at for at, r in enumerate(self.retained) if r.problem is None}
        by_use = sorted(
            self.previous_indices,
            key=lambda name: (used.get(name, -1), self._parse_number(name), name),
        )
        return by_use[: max(0, len(by_use) - retained)]

    def retain_served(self, loss: str | None, *, is_trusted: bool = True, now: str) -> Self:
        """Record the served index as it is, before an export replaces it; once.

        `loss`: why its content is unknown, as a clause; None if it equals the applied snapshot.
        Where the document is not to be trusted, what it has recorded of others is forgotten.
        """
        # Its own record is there while an export is open, whose index `loss` is about then.
        others = self.retained if is_trusted else []
        is_known = self.index in [record.index for record in others]
        if self.index is None or self.applied is None or is_known:
            return self
        problem = loss or self._find_problem()
        record = RetainedIndex(
            index=self.index,
            index_uuid=self.index_uuid,
            histories=self.shards.histories if self.shards and not loss else None,
            operations=self.shards.operations if self.shards else 0,
            source=self.source,
            document_spec=self.document_spec,
            applied=self.applied,
            duplicates=self.duplicates.count if self.duplicates else 0,
            problem=problem and problem[:PROBLEM_CHARACTERS],
        )
        return self._with(now, retained=[*others, record][-MAX_RETAINED_INDICES:])

    def roll_back(self, shards: Shards, loss: str | None, *, number: int = 0, now: str) -> Self:
        """Make `earlier` the served index; the other one is retained.

        `shards`: its primaries as they are now. `loss`: as for `retain_served`. `number`: the last
        sequence number of the table. An open intent is abandoned: a batch with the index that is
        left, an export with the index that it fills.
        """
        document, earlier = self.retain_served(loss, now=now), self.earlier
        if earlier is None:
            raise Bug(f"State of {self.alias!r}: readers cannot be switched back to an index.")
        older = {*self.previous_indices, self.index} - {None, earlier.index}
        count = earlier.duplicates
        return document._with(
            now,
            index=earlier.index,
            index_uuid=earlier.index_uuid,
            shards=shards,
            source=earlier.source,
            document_spec=earlier.document_spec,
            applied=earlier.applied,
            intent=None,
            duplicates=RecordedDuplicates(count=count, samples=[]) if count else None,
            totals=self.totals.add(Totals()),
            rolled_back_number=number,
            fault=None,
            absent_nodes=[],
            # A late write of what is left must never find another index under that name.
            last_index_number=self.last_number,
            retained=[record for record in document.retained if record.index != earlier.index],
            previous_indices=self._pick_newest(map(str, older)),
        )

    def _find_problem(self) -> str | None:
        """Return why the served index could not be used again, as a clause; None if it can be."""
        if self.shards is None:
            return "an earlier version of the operator recorded too little of it"
        if self.intent is not None:
            return "it was left while a batch was under way"
        if self.absent_nodes:
            return "requests for it may be inside a node that left the cluster"
        return None

    def _parse_number(self, index: str | None) -> int:
        return naming.parse_physical_number(self.alias, index or "") or 0

    def _pick_newest(self, indices: Iterable[str]) -> list[str]:
        """Return the indices with the newest last, and no more than can be remembered."""
        return sorted(indices, key=lambda name: (self._parse_number(name), name))[
            -MAX_PREVIOUS_INDICES:
        ]

    def _require(self, condition: bool, problem: str) -> None:
        if not condition:
            raise Bug(f"State of {self.alias!r}: {problem}.")

    def _with(self, now: str, **changes: Any) -> Self:
        # Validated again, so that no change can store a document that `parse` would refuse.
        written = {"contract_version": CONTRACT_VERSION, "updated_at": now}
        return type(self).model_validate(vars(self) | changes | written)
