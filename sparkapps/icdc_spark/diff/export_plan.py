"""Cut the files of a snapshot into the chunks of an export, without ever holding all of them.

Chunks are numbered, and a restarted export goes on at a number. So the same snapshot must always be
cut alike: files are taken in the fixed order of the snapshot's manifests (`ordered_scan`), and a
chunk ends where the next file would exceed a target.

The files are read twice. `plan_export` counts chunks, rows and bytes, and remembers for each window
of manifests how far the cut was before its first file. `ExportPlan.chunks` reads the files again,
with their deletes, as chunks are asked for, from the window on in which the first of them begins.

Example, a target of 100 MB and windows of three files:

    window    files, MB      remembered          chunks
    1         60, 30, 30     nothing             0: 60, 30; 1: 30
    2         200, 10, 80    chunk 1 has 30      2: 200; 3: 10, 80
    3         20             chunk 3 has 90      4: 20

An export that goes on at chunk 3 reads the windows 2 and 3. It must not know how chunks are
written.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby, islice

from icdc_spark.iceberg.scan.ordered_scan import WINDOW_FILES, OrderedFile, OrderedScan
from icdc_spark.iceberg.scan.planning import FileGroup, merge_groups, release_groups
from icdc_spark.iceberg.table.tables import IcebergTable


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """One unit of an export's work."""

    number: int
    """Counts from 0 and names the work: a restarted export goes on at a number."""
    group: FileGroup
    """Data files of the exported snapshot, with the deletes that apply to them."""


@dataclass(kw_only=True)
class Cutter:
    """Says which chunk each of the files, taken in order, belongs to."""

    target_bytes: int
    """Bytes of a chunk, unless a single file has more."""
    target_rows: int
    """Rows of a chunk, unless a single file has more."""
    number: int = -1
    """The chunk of the last file; -1 before the first one."""
    bytes: int = 0
    """Bytes of that chunk until now."""
    rows: int = 0
    """Its rows until now."""

    def take(self, file: OrderedFile) -> int:
        """Return the number of the chunk of the next file."""
        is_full = (
            self.bytes + file.bytes > self.target_bytes
            or self.rows + file.records > self.target_rows
        )
        # The first file is taken even where it alone exceeds the target.
        if self.number < 0 or is_full:
            self.number += 1
            self.bytes = self.rows = 0
        self.bytes += file.bytes
        self.rows += file.records
        return self.number


class ExportPlan:
    """The chunks of one snapshot: their number, their size, and each when it is asked for."""

    def __init__(self, table: IcebergTable, scan: OrderedScan, cutter: Cutter) -> None:
        """Read the sizes of all files; `cutter` has taken none."""
        self._table, self._scan = table, scan
        self._begins: list[Cutter] = []
        self.files = 0
        """The number of data files."""
        self.records = 0
        """Their rows, before deletes are applied."""
        self.bytes = 0
        """Their size as stored, without the delete files."""
        for window in scan.windows:
            # A copy: the cutter goes on through the files of the window.
            self._begins.append(replace(cutter))
            for file in scan.read_sizes(window):
                cutter.take(file)
                self.files += 1
                self.records += file.records
                self.bytes += file.bytes
        self.count = cutter.number + 1
        """The number of chunks."""

    def iterate_chunks(self, first: int = 0) -> Iterator[Chunk]:
        """Yield the chunks from number `first` on; files are read as they are needed."""
        number, groups = first, list[FileGroup]()
        for chunk, group in self._cut(first):
            if chunk != number and groups:
                yield self._merge(number, groups)
                groups = []
            number = chunk
            groups.append(group)
        if groups:
            yield self._merge(number, groups)

    def _cut(self, first: int) -> Iterator[tuple[int, FileGroup]]:
        """Yield the files of each chunk from `first` on, with its number, slice by slice."""
        # The chunk begins in the last window at whose begin it was not open yet.
        begin = max(0, bisect_left(self._begins, first, key=lambda begun: begun.number) - 1)
        for window, begun in islice(
            zip(self._scan.windows, self._begins, strict=True), begin, None
        ):
            cutter = replace(begun)
            for part in self._scan.list_files(window):
                for number, files in groupby(part.files, key=cutter.take):
                    # The window may begin with chunks that are written already.
                    if number >= first:
                        yield number, self._scan.group(part, list(files))

    def _merge(self, number: int, groups: list[FileGroup]) -> Chunk:
        if len(groups) == 1:
            return Chunk(number=number, group=groups[0])
        chunk = Chunk(number=number, group=merge_groups(self._table, groups))
        # The merged group has a list of its own; those of its parts would stay in the JVM.
        release_groups(self._table, groups)
        return chunk


def plan_export(
    table: IcebergTable,
    snapshot_id: int,
    *,
    target_bytes: int,
    target_rows: int,
    window_files: int = WINDOW_FILES,
) -> ExportPlan:
    """Cut a snapshot into chunks of about `target_bytes` compressed. Gap if it has expired.

    A chunk is closed earlier at `target_rows`: the cost is the rows, and some compress well.
    `window_files` is what is held at once; it has no influence on the chunks.
    """
    scan = OrderedScan(table, snapshot_id, window_files=window_files)
    return ExportPlan(table, scan, Cutter(target_bytes=target_bytes, target_rows=target_rows))
