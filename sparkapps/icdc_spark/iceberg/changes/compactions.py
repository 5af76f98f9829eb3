"""Take compactions out of a comparison of two snapshots, so that their files need not be read.

A compaction makes large files differ although no row does. So the files that it wrote are left out
of the later snapshot. The files that it replaced are restored there: as they were just before, with
the deletes that they had then. What the earlier snapshot has as well then cancels, or only its
deletes differ. Where one of these conditions does not hold, the rows are compared, which gives the
same result but is expensive:

- The later snapshot descends from the earlier one, and all snapshots between are retained
  (`take_out_compactions`).
- Every file that the compaction wrote is in the later snapshot as it was written: no delete file of
  only one of the two snapshots may apply to it (`_has_changed_delete`). If another compaction
  replaced it, the same holds until then.
- There are as many rows as before, as far as known without reading deletes (`_row_counts_match`).
  Iceberg itself refuses a compaction that gains rows.

Compactions that share files form a chain: all of them are taken out, or none (`build_chain`).

Example: snapshot 11 appends c, 12 deletes a row of b, 13 compacts a, b and c into A, 14 appends d.

    file   10 (earlier)   12            14 (later)   in the comparison
    a      yes            yes           -            cancels
    b      yes            with delete   -            as of 10 and as of 12: one row is deleted
    c      -              yes           -            added, as of 12
    A      -              -             yes          left out
    d      -              -             yes          added
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from icdc_spark.iceberg.changes.changed_files import SnapshotFiles
from icdc_spark.iceberg.changes.manifest_comparison import ManifestComparison
from icdc_spark.iceberg.changes.rewrites import Rewrite, RewrittenFile, list_rewrites
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.scan.planning import PlannedFile
from icdc_spark.iceberg.table.tables import IcebergTable


def take_out_compactions(
    table: IcebergTable, from_id: int | None, to_id: int, files: SnapshotFiles
) -> SnapshotFiles:
    """Return `files`, a result of `list_changed`, with replaced files restored where possible."""
    # A compaction removes files and adds others: without both there is none to take out.
    if from_id is None or not files.earlier.files or not files.later.files:
        return files
    snapshots = table.list_snapshots_between(from_id, to_id)
    if snapshots is None:
        return files
    with translate_source_errors(table.name):
        rewrites = list(list_rewrites(table, snapshots))
        if not rewrites:
            return files
        compactions = _Compactions(table, from_id, to_id, files)
        chains = [compactions.build_chain(group) for group in _group_by_shared_files(rewrites)]
        return compactions.restore_replaced_files([chain for chain in chains if chain is not None])


@dataclass(kw_only=True)
class _RewriteChain:
    """The files of compactions that share files, by location."""

    replaced: set[str] = field(default_factory=set)
    """Files of the earlier snapshot that a compaction replaced."""
    written: set[str] = field(default_factory=set)
    """Files of the later snapshot; they hold the rows of all other files of the chain."""
    restored: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By the last snapshot that has them: files to be listed as they were in that snapshot."""


class _WrittenFile(NamedTuple):
    """A file that a compaction wrote and that no later one has replaced so far."""

    snapshot_id: int
    """The snapshot of the compaction."""
    file: RewrittenFile
    """The file as it was written."""


class _Compactions:
    """The compactions between two snapshots, and the files by which the snapshots differ."""

    def __init__(self, table: IcebergTable, from_id: int, to_id: int, files: SnapshotFiles) -> None:
        self._from_id, self._to_id, self._files = from_id, to_id, files
        earlier = {file.location: file for file in files.earlier.files}
        later = {file.location: file for file in files.later.files}
        self._removed = {path: file for path, file in earlier.items() if path not in later}
        self._added = {path: file for path, file in later.items() if path not in earlier}
        self._in_both = earlier.keys() & later.keys()
        self._since = table.require(from_id).sequence_number
        self._comparison = ManifestComparison(table)
        self._affected: dict[tuple[int, int], set[str | None]] = {}

    def restore_replaced_files(self, chains: Iterable[_RewriteChain]) -> SnapshotFiles:
        """Leave out the files that the chains wrote, and restore those that they replaced."""
        replaced: set[str] = set()
        written: set[str] = set()
        restored: dict[int, set[str]] = defaultdict(set)
        for chain in chains:
            replaced |= chain.replaced
            written |= chain.written
            for snapshot_id, locations in chain.restored.items():
                restored[snapshot_id] |= locations
        listings = [
            self._comparison.list_intermediate(self._from_id, self._to_id, snapshot_id, locations)
            for snapshot_id, locations in restored.items()
        ]
        # Replaced files that are not restored had the same deletes until the end: they cancel.
        unchanged = replaced.difference(*restored.values())
        return self._files._replace(
            earlier=self._files.earlier.without(unchanged),
            later=self._files.later.without(written, *listings),
        )

    def build_chain(self, rewrites: Sequence[Rewrite]) -> _RewriteChain | None:
        """Follow the files of rewrites that share files, oldest first.

        None where a condition of this module does not hold, so that rows must be read. Also None
        where the chain replaced no row of the earlier snapshot: restoring would save no read.
        """
        chain = _RewriteChain()
        open_files: dict[str, _WrittenFile] = {}
        for rewrite in rewrites:
            for file in rewrite.removed:
                if not self._follow_removal(file, rewrite.parent_id, open_files, chain):
                    return None
            # Files have unique names. A path that is written twice was added again by hand.
            if any(file.location in open_files for file in rewrite.added):
                return None
            for file in rewrite.added:
                open_files[file.location] = _WrittenFile(rewrite.snapshot_id, file)
        for location, (snapshot_id, file) in open_files.items():
            if not _is_same_file(self._added.get(location), file):
                return None
            if self._has_changed_delete(file, snapshot_id, self._to_id):
                return None
            chain.written.add(location)
        return chain if chain.replaced and self._row_counts_match(chain) else None

    def _follow_removal(
        self,
        file: RewrittenFile,
        parent_id: int,
        open_files: dict[str, _WrittenFile],
        chain: _RewriteChain,
    ) -> bool:
        """Note in `chain` a file that a compaction replaced; False if too little is known of it.

        `parent_id` is the last snapshot that has the file.
        """
        location = file.location
        if location in open_files:
            # Written and replaced by compactions of the chain: its rows are in other files of it,
            # unless a delete was added in between, which the next compaction then applied.
            snapshot_id, written = open_files.pop(location)
            return written == file and not self._has_changed_delete(file, snapshot_id, parent_id)
        if location in self._removed:
            # A file of the earlier snapshot. If deletes were added to it before it was compacted,
            # its rows differ by these, so it is compared in the state just before.
            chain.replaced.add(location)
            if self._has_changed_delete(file, self._from_id, parent_id):
                chain.restored[parent_id].add(location)
            return _is_same_file(self._removed[location], file)
        # Otherwise it must be a file that was added after the earlier snapshot, and only once.
        if location in self._in_both or location in self._added or file.sequence <= self._since:
            return False
        chain.restored[parent_id].add(location)
        return True

    def _has_changed_delete(self, file: RewrittenFile, first_id: int, last_id: int) -> bool:
        """Return whether a delete file of only one of two snapshots may apply to the file."""
        if first_id == last_id:
            return False
        # Many files share a pair of snapshots, and comparing the pair reads manifests.
        if (first_id, last_id) not in self._affected:
            affected = self._comparison.find_affected_files(first_id, last_id)
            self._affected[first_id, last_id] = affected
        affected = self._affected[first_id, last_id]
        return None in affected or file.location in affected

    def _row_counts_match(self, chain: _RewriteChain) -> bool:
        """Return whether the chain wrote as many rows as it replaced.

        True where deletes were applied: how many rows these removed is not known without a read.
        """
        if chain.restored or any(self._removed[path].deletes for path in chain.replaced):
            return True
        before = sum(self._removed[location].records for location in chain.replaced)
        return before == sum(self._added[location].records for location in chain.written)


def _is_same_file(planned: PlannedFile | None, file: RewrittenFile) -> bool:
    """Return whether this is the file itself, and not the same path added again later."""
    return planned is not None and planned.sequence == file.sequence


def _group_by_shared_files(rewrites: Sequence[Rewrite]) -> Iterator[list[Rewrite]]:
    """Yield rewrites that share files, directly or through others, in the given order."""
    numbers: Mapping[str, list[int]] = defaultdict(list)
    for number, rewrite in enumerate(rewrites):
        for file in (*rewrite.removed, *rewrite.added):
            numbers[file.location].append(number)
    # Connected components: rewrites are nodes, shared files are edges.
    remaining = set(range(len(rewrites)))
    while remaining:
        queue, group = [min(remaining)], set[int]()
        while queue:
            number = queue.pop()
            if number in group:
                continue
            group.add(number)
            rewrite = rewrites[number]
            for file in (*rewrite.removed, *rewrite.added):
                queue += numbers[file.location]
        remaining -= group
        yield [rewrites[number] for number in sorted(group)]
