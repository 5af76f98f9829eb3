"""Find the data files that only one of two lists of manifests holds, some files at a time.

Manifests that were rewritten hold mostly files that both snapshots have, and after a rewrite of all
manifests they hold all files of the table twice. Described one by one, a million files would take
more than a gigabyte. So of each file only a digest of 16 bytes is remembered, of its location and
sequence number. The manifests are read twice, and what differs is described by a third reading.

Example, files with their sequence numbers:

    earlier                          a 1    b 2    c 3
    later                            a 1    b 5           d 6
    digests of one side alone               b 2    c 3
                                            b 5           d 6
    locations                               b      c      d

It must not know which deletes apply to the files.
"""

import hashlib
from collections.abc import Iterable, Iterator, Set
from functools import partial

import numpy as np
import numpy.typing

from icdc_spark.iceberg.scan.manifest_entries import (
    DataEntry,
    describe_data_files,
    open_data_files,
    select_columns,
    slice_files,
)
from icdc_spark.iceberg.scan.manifests import Manifests
from icdc_spark.iceberg.table.tables import IcebergTable

FILES_AT_ONCE = 50_000
"""Files whose descriptions are in memory at a time: up to 1 KB each in the JVM."""

_DIGEST_BYTES = 16
_END = b"\1"
"""Of each digest: numpy takes zero bytes at the end for no bytes."""


def find_differing(
    table: IcebergTable,
    earlier: Manifests,
    later: Manifests,
    *,
    partitions: Set[str],
    at_once: int = FILES_AT_ONCE,
) -> set[str]:
    """Return the locations of the data files that only one of both lists holds.

    Files that have another sequence number in the other list are among them, and all files in these
    `partitions` (as in `DataEntry`).
    """

    def read_digests(manifests: Manifests) -> numpy.typing.NDArray[np.bytes_]:
        parts = _iterate_entries(table, manifests, frozenset(), at_once)
        # As one text: Python objects would take several times the 16 bytes.
        joined = b"".join(b"".join(_compute_digests(entries)) for entries in parts)
        return np.unique(np.frombuffer(joined, dtype=f"S{_DIGEST_BYTES}"))

    # `read_digests` has made both unique, which numpy would do again at the same cost.
    digests = np.setxor1d(read_digests(earlier), read_digests(later), assume_unique=True)
    one_sided = frozenset(digests.tolist())
    return {
        location
        for manifests in (earlier, later)
        for entries in _iterate_entries(table, manifests, partitions, at_once)
        for (location, entry), digest in zip(entries, _compute_digests(entries), strict=True)
        if digest in one_sided or entry.partition in partitions
    }


def _iterate_entries(
    table: IcebergTable, manifests: Manifests, partitions: Set[str], at_once: int
) -> Iterator[list[tuple[str, DataEntry]]]:
    """Yield lists of the live data files, up to `at_once` of them; see `read_data_entries`."""
    with_partitions = bool(partitions)
    for window in manifests.cut(at_once):
        open_files = partial(open_data_files, table, window, select_columns(with_partitions))
        for files in slice_files(table, window, open_files, at_once):
            yield describe_data_files(table, files, partitions=with_partitions)
            table.bridge.clear(files)


def _compute_digests(entries: Iterable[tuple[str, DataEntry]]) -> Iterator[bytes]:
    for location, entry in entries:
        text = f"{entry.sequence} {location}".encode()
        yield hashlib.blake2b(text, digest_size=_DIGEST_BYTES - 1).digest() + _END
