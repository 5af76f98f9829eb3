"""List the data files of a snapshot in a fixed order, a bounded number of them at a time.

The list of manifests of a snapshot never changes, and neither does a manifest. So the order
(manifest in the list, entry in the manifest) is the same whenever it is asked for, whatever was
committed or rewritten meanwhile, and no list of all files has to be sorted for it.

Files are listed window by window. A window is some manifests that follow each other and have no
more files than the limit; Iceberg reads them in parallel, so their files are put in order here. A
manifest that has more files, or does not state how many (format 1), is a window of its own. Its
files come in its order, in slices; it is read anew for each slice, because nothing may stay open
while the rows of a slice are written, which takes minutes.

Example, with a limit of 10 files:

    manifests    M1 (4 files), M2 (5), M3 (24), M4 (1), M5 (2)
    windows      M1 M2   M3              M4 M5
    slices       9       10   10   4     3

Deletes are assigned by Iceberg's own planning of a window (`partial_scan`), which reads the delete
manifests and indexes their files in memory. So they are read once for each window, without those
that are older than all of its data files (`applicable_deletes` leaves out more). What grows with
the table is the list of its manifests. This module must not know what the files are read for.
"""

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.scan.applicable_deletes import narrow_deletes
from icdc_spark.iceberg.scan.manifest_entries import open_data_files, slice_files
from icdc_spark.iceberg.scan.manifests import FILE, Manifests, read_manifests
from icdc_spark.iceberg.scan.partial_scan import plan_partial_scan
from icdc_spark.iceberg.scan.planning import FileGroup, collect_data_files
from icdc_spark.iceberg.table.tables import IcebergTable

WINDOW_FILES = 10_000
"""Files of a window or slice: some 10 MB of Java objects."""

COLLECTED_DELETES = 1_000
"""Delete files, half a megabyte of an index. Smaller ones wait for a collection that Python makes
by itself: one takes up to a second, and a window of few files may be planned in less."""

_SIZES = ("record_count", "file_size_in_bytes")


class OrderedFile(NamedTuple):
    """A data file of a slice."""

    position: int
    """Its position in the Java list that it came in."""
    records: int
    """Its rows, before deletes are applied."""
    bytes: int
    """Its size as stored."""


@dataclass(frozen=True, kw_only=True)
class FileSlice:
    """Data files that follow each other, each with the deletes that apply to it."""

    tasks: Any
    """A Java list of `FileScanTask`, in any order."""
    files: list[OrderedFile]
    """The files in order."""


class OrderedScan:
    """The data files of one snapshot. They are remembered only where they are a single window."""

    def __init__(
        self, table: IcebergTable, snapshot_id: int, *, window_files: int = WINDOW_FILES
    ) -> None:
        """Read the list of manifests. Gap if the snapshot has expired."""
        table.require(snapshot_id)
        self._table, self._limit = table, window_files
        with translate_source_errors(table.name):
            manifests = read_manifests(table, snapshot_id)
            self.windows = manifests.data.cut(window_files)
            """The manifests of each window."""
            self._deletes = manifests.deletes
        self._stored: list[FileSlice] | None = None

    def read_sizes(self, window: Manifests) -> Iterator[OrderedFile]:
        """Yield the files of a window in order, by few columns and without deletes."""
        counts = window.file_counts
        if len(self.windows) == 1 and None not in counts and window.live_files <= self._limit:
            # Planned once, and read for both: so few tasks may stay until they are asked for.
            self._stored = list(self._plan(window))
            for part in self._stored:
                yield from part.files
            return
        open_files = partial(open_data_files, self._table, window, _SIZES)
        for java_files in slice_files(self._table, window, open_files, self._limit):
            yield from self._sort(window, java_files)
            self._table.bridge.clear(java_files)

    def list_files(self, window: Manifests) -> Iterator[FileSlice]:
        """Yield the files of a window in order, slice by slice; each is valid until the next."""
        if self._stored is not None:
            yield from self._stored
            return
        for part in self._plan(window):
            yield part
            self._table.bridge.clear(part.tasks)

    def iterate_groups(self) -> Iterator[FileGroup]:
        """Yield all files in order, in groups that are no larger than a window or slice."""
        for window in self.windows:
            for part in self.list_files(window):
                # The last slice of a manifest may be empty.
                if part.files:
                    yield self.group(part, part.files)

    def _plan(self, window: Manifests) -> Iterator[FileSlice]:
        with translate_source_errors(self._table.name):
            deletes = narrow_deletes(self._table, window, self._deletes, at_once=self._limit)
        open_tasks = partial(plan_partial_scan, self._table, window, deletes)
        for java_tasks in slice_files(self._table, window, open_tasks, self._limit):
            files = collect_data_files(self._table.bridge, java_tasks)
            yield FileSlice(tasks=java_tasks, files=self._sort(window, files))
            if deletes.live_files > COLLECTED_DELETES:
                # py4j makes a cycle for each Java object, and a planned scan holds its index.
                gc.collect()

    def group(self, part: FileSlice, files: list[OrderedFile]) -> FileGroup:
        """Return some files of a slice as one group, in the given order."""
        return FileGroup(
            tasks=self._table.bridge.pick(part.tasks, [file.position for file in files]),
            files=len(files),
            records=sum(file.records for file in files),
            bytes=sum(file.bytes for file in files),
        )

    def _sort(self, window: Manifests, files: Any) -> list[OrderedFile]:
        """Return the files of a Java list of `ContentFile` by manifest and entry."""
        bridge = self._table.bridge
        with translate_source_errors(self._table.name):
            records, sizes, entries = (
                [int(text) for text in bridge.read_texts(bridge.map(files, FILE, method))]
                for method in ("recordCount", "fileSizeInBytes", "pos")
            )
            paths = bridge.read_texts(bridge.map(files, FILE, "manifestLocation"))
        numbers = {key.path: number for number, key in enumerate(window.keys)}
        order = sorted(range(len(paths)), key=lambda at: (numbers[paths[at]], entries[at]))
        return [OrderedFile(at, records[at], sizes[at]) for at in order]
