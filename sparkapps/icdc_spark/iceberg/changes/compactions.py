"""Takes compactions back out of a comparison of two snapshots, which then need not read them.

A compaction makes large files differ although no row does. Where all is known of it, the files
that it wrote are left out of the later snapshot and those that it replaced are put back, as they
were just before, with the deletes of then. What the earlier snapshot had as well then cancels, or
only its deletes differ. That is exact, and it is only done where all of this holds; else rows are
compared, which is as right and dearer.

- The later snapshot descends from the earlier one by snapshots that are all retained.
- What the compaction wrote is in the later snapshot as it was written: no delete file of only one
  of the two snapshots may concern it. The same holds for what one compaction wrote and another
  took out, until then.
- There are as many rows as before, where that can be told without reading deletes. Iceberg itself
  refuses a compaction that gains rows.

Compactions of each other's files stand and fall together.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from icdc_spark.iceberg.changes.changed_files import Comparison, Sides
from icdc_spark.iceberg.changes.rewrites import Rewrite, RewrittenFile, rewrites_of
from icdc_spark.iceberg.jvm.errors import source_errors
from icdc_spark.iceberg.scan.planning import PlannedFile
from icdc_spark.iceberg.table.tables import IcebergTable


def without_compactions(
    table: IcebergTable, from_id: int | None, to_id: int, sides: Sides
) -> Sides:
    """The files among which the differences are, after all that compactions explain was taken out.

    `sides` is what `list_changed` found between the two snapshots.
    """
    if from_id is None or not sides.earlier.files or not sides.later.files:
        return sides
    chain = table.lineage(from_id, to_id)
    if chain is None:
        return sides
    with source_errors(table.name):
        rewrites = list(rewrites_of(table, chain))
        if not rewrites:
            return sides
        undoing = _Undoing(table, from_id, to_id, sides)
        found = [undoing.lives(each) for each in _connected(rewrites)]
        return undoing.undo([lives for lives in found if lives is not None])


@dataclass(kw_only=True)
class _Lives:
    """What becomes of the files of some compactions that belong together."""

    originals: set[str] = field(default_factory=set)
    """Files of the earlier snapshot."""
    results: set[str] = field(default_factory=set)
    """Files of the later snapshot, which hold the rows of all others."""
    ends: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By the last snapshot that has them, files to be looked at as they were there."""


class _Undoing:
    """What one comparison works with."""

    def __init__(self, table: IcebergTable, from_id: int, to_id: int, sides: Sides) -> None:
        self._from_id, self._to_id, self._sides = from_id, to_id, sides
        earlier = {file.location: file for file in sides.earlier.files}
        later = {file.location: file for file in sides.later.files}
        self._removed = {place: file for place, file in earlier.items() if place not in later}
        self._added = {place: file for place, file in later.items() if place not in earlier}
        self._both = earlier.keys() & later.keys()
        self._since = table.require(from_id).sequence_number
        self._comparison = Comparison(table)
        self._concerned: dict[tuple[int, int], set[str | None]] = {}

    def undo(self, compactions: Iterable[_Lives]) -> Sides:
        """Leaves out what these wrote, and puts back what they replaced."""
        originals: set[str] = set()
        results: set[str] = set()
        ends: dict[int, set[str]] = defaultdict(set)
        for lives in compactions:
            originals |= lives.originals
            results |= lives.results
            for snapshot_id, places in lives.ends.items():
                ends[snapshot_id] |= places
        put_back = [
            self._comparison.list_between(self._from_id, self._to_id, snapshot_id, places)
            for snapshot_id, places in ends.items()
        ]
        same = originals.difference(*ends.values())
        earlier, later = self._sides.earlier, self._sides.later
        return self._sides._replace(
            earlier=earlier.without(same), later=later.without(results, *put_back)
        )

    def lives(self, rewrites: Sequence[Rewrite]) -> _Lives | None:
        """The files of rewrites that belong together, oldest first; None where rows must be read.

        Also None where that would be no dearer, because no row of the earlier snapshot was moved.
        """
        lives = _Lives()
        born: dict[str, tuple[int, RewrittenFile]] = {}
        for each in rewrites:
            if not all(self._take_out(file, each.parent_id, born, lives) for file in each.removed):
                return None
            if any(file.location in born for file in each.added):
                return None
            born |= {file.location: (each.snapshot_id, file) for file in each.added}
        for place, (since, file) in born.items():
            if not _is(self._added.get(place), file):
                return None
            if self._is_concerned(file, since, self._to_id):
                return None
            lives.results.add(place)
        return lives if lives.originals and self._adds_up(lives) else None

    def _take_out(
        self,
        file: RewrittenFile,
        parent_id: int,
        born: dict[str, tuple[int, RewrittenFile]],
        lives: _Lives,
    ) -> bool:
        """Notes a file whose life ends with this snapshot; False if it is not known well enough."""
        place = file.location
        if place in born:
            since, before = born.pop(place)
            return before == file and not self._is_concerned(file, since, parent_id)
        if place in self._removed:
            lives.originals.add(place)
            if self._is_concerned(file, self._from_id, parent_id):
                lives.ends[parent_id].add(place)
            return _is(self._removed[place], file)
        if place in self._both or place in self._added or file.sequence <= self._since:
            return False
        lives.ends[parent_id].add(place)
        return True

    def _is_concerned(self, file: RewrittenFile, since: int, until: int) -> bool:
        """Whether a delete file of one of these snapshots alone may concern the file."""
        if since == until:
            return False
        if (since, until) not in self._concerned:
            self._concerned[since, until] = self._comparison.concerned(since, until)
        concerned = self._concerned[since, until]
        return None in concerned or file.location in concerned

    def _adds_up(self, lives: _Lives) -> bool:
        """Whether as many rows are there as were; with deletes nobody knows before reading."""
        if lives.ends or any(self._removed[place].deletes for place in lives.originals):
            return True
        before = sum(self._removed[place].records for place in lives.originals)
        return before == sum(self._added[place].records for place in lives.results)


def _is(planned: PlannedFile | None, file: RewrittenFile) -> bool:
    """Whether it is the file itself, and not the same one put in again later."""
    return planned is not None and planned.sequence == file.sequence


def _connected(rewrites: Sequence[Rewrite]) -> Iterator[list[Rewrite]]:
    """Rewrites that share files, directly or by others, each in the order given."""
    sharing: Mapping[str, list[int]] = defaultdict(list)
    for number, each in enumerate(rewrites):
        for file in (*each.removed, *each.added):
            sharing[file.location].append(number)
    left = set(range(len(rewrites)))
    while left:
        waiting, together = [min(left)], set[int]()
        while waiting:
            number = waiting.pop()
            if number in together:
                continue
            together.add(number)
            each = rewrites[number]
            for file in (*each.removed, *each.added):
                waiting += sharing[file.location]
        left -= together
        yield [rewrites[number] for number in sorted(together)]
