"""Leave out delete manifests in which no delete file applies to the data files of a window.

Iceberg's planning holds all delete files that it is given in memory, whether they apply to the data
files or not. So it is given the delete manifests alone that may be about one of these data files.
What each delete manifest is about is read once (`manifest_index`).

Example, a window with the data files a and b, both of the partition country=NL:

    manifest   its delete files are for     planned with the window
    X1         a, c                         yes, also its delete file for c
    X2         c, d                         no
    X3         all of country=BE            no
    X4         all of country=NL            yes
    X5         any file                     yes

So the memory is bounded where deletes are near to each other as their data files are: in tables
that grow by time, and after manifests were rewritten by partition. Where every delete manifest has
delete files for every window it grows with all delete files of the snapshot. It must not know which
delete applies: Iceberg says that.
"""

from functools import partial

from icdc_spark.iceberg.scan.manifest_entries import (
    describe_data_files,
    open_data_files,
    read_delete_entries,
    select_columns,
    slice_files,
)
from icdc_spark.iceberg.scan.manifest_index import KeysByManifest, ManifestIndex
from icdc_spark.iceberg.scan.manifests import Manifests
from icdc_spark.iceberg.table.tables import IcebergTable

FEW_DELETES = 10_000
"""Delete files that are always planned: some 10 MB, less than it costs to know more of them."""
MANY_FILES = 100_000
"""Data files of one large manifest from which on its delete manifests are not searched: the names
of the files would take more memory than is saved."""

DELETE_INDEX = ManifestIndex()
"""Data files and partitions by delete manifest. One for the process: the names of manifests are
unique across tables."""


def narrow_deletes(
    table: IcebergTable, window: Manifests, deletes: Manifests, *, at_once: int
) -> Manifests:
    """Return the delete manifests without which data files of the window would miss a delete.

    `deletes` are all of the snapshot; `at_once` data files of the window are described at a time.
    """
    # A delete applies to files that are no younger. In format 1 all numbers are 0.
    recent = deletes.since(window.min_sequence)
    if recent.live_files <= FEW_DELETES or window.live_files > MANY_FILES:
        return recent
    keys = set[str]()
    open_files = partial(open_data_files, table, window, select_columns(partitions=True))
    for files in slice_files(table, window, open_files, at_once):
        for location, entry in describe_data_files(table, files, partitions=True):
            keys.add(location)
            if entry.partition is not None:
                keys.add(entry.partition)
        table.bridge.clear(files)
    return DELETE_INDEX.narrow(recent, keys, partial(_read_keys, table))


def _read_keys(table: IcebergTable, manifests: Manifests) -> KeysByManifest:
    """Return what each delete manifest is about: data files, partitions, None for any file."""
    keys: dict[str, set[str | None]] = {}
    for manifest, entry in read_delete_entries(table, manifests):
        keys.setdefault(manifest, set()).add(entry.data_file or entry.partition)
    return keys
