"""An index in memory of the data files or partitions that each manifest is about.

A small commit of deletes may apply to data files in any manifest of a table. A manifest never
changes, so each is read for the index once; the next commit reads only the manifests that are new
or needed. Memory is bounded: a manifest has one hash per key, and manifests that were not used for
longest are removed first. Equal hashes of different keys cost a read in vain, never a wrong result.

Example, with manifests M1 {a, b}, M2 {c} and M3 {d}:

    call                      reads for the index   returns
    narrow([M1, M2], {a})     M1, M2                [M1]
    narrow([M1, M2, M3], {c}) M3                    [M2]
    narrow([M1, M3], {b, d})  nothing               [M1, M3]

If M1 has been removed to make room, the third call reads it again.
"""

import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

from icdc_spark.iceberg.scan.manifests import ManifestKey, Manifests

CAPACITY = 1_000_000
"""Keys that are stored in all: 8 MB of hashes."""
READ_AT_ONCE = 50_000
"""Files whose keys are in memory as text at a time: up to 1 KB each."""

KeysByManifest = Mapping[str, Iterable[str | None]]
"""By the path of a manifest, the locations of the data files (or the partitions) that it is about.

None among them stands for any file."""


@dataclass(frozen=True, kw_only=True)
class IndexedManifest:
    """The keys of one manifest."""

    hashes: "array[int]"
    """The hashes of the keys: 8 bytes each, where paths would take a hundred and more."""
    has_any_file: bool = False
    """Whether a delete file of the manifest may apply to any data file."""

    def may_have(self, hashes: Set[int]) -> bool:
        """Return whether the manifest may be about a key with one of these hashes."""
        return self.has_any_file or not hashes.isdisjoint(self.hashes)


class ManifestIndex:
    """The manifests that were read for the index. Several threads may use it at once."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        # Held for changes of the two fields below only: never while manifests are read.
        self._lock = threading.Lock()
        self._manifests: OrderedDict[ManifestKey, IndexedManifest] = OrderedDict()
        self._size = 0

    def narrow(
        self, manifests: Manifests, keys: Set[str], read: Callable[[Manifests], KeysByManifest]
    ) -> Manifests:
        """Return the manifests that may be about one of the keys.

        `read` reads the manifests that are not in the index. Returns all of `manifests` where their
        files are more than the index can store.
        """
        with self._lock:
            indexed = {
                key: self._manifests[key] for key in manifests.keys if key in self._manifests
            }
            for key in indexed:
                self._manifests.move_to_end(key)
        missing = manifests.without(indexed.keys())
        if missing.live_files > self._capacity:
            return manifests
        if missing:
            # Two threads may read the same manifest: both get the same keys, and one is stored.
            new = _read_keys(missing, read)
            self._store(new)
            # From here, not from the index: another thread may have removed some of them already.
            indexed |= new
        # Python's own hash: its salt is that of this process, and so is the index.
        hashes = {hash(key) for key in keys}
        return manifests.within(
            {key for key, manifest in indexed.items() if manifest.may_have(hashes)}
        )

    def _store(self, new: Mapping[ManifestKey, IndexedManifest]) -> None:
        """Add manifests, and remove those that were not used for longest to make room."""
        with self._lock:
            for key, manifest in new.items():
                if key not in self._manifests:
                    self._manifests[key] = manifest
                    self._size += _measure(manifest)
            while self._size > self._capacity:
                _, removed = self._manifests.popitem(last=False)
                self._size -= _measure(removed)


def _read_keys(
    manifests: Manifests, read: Callable[[Manifests], KeysByManifest]
) -> dict[ManifestKey, IndexedManifest]:
    many = manifests.live_files > READ_AT_ONCE
    new: dict[ManifestKey, IndexedManifest] = {}
    for run in manifests.cut(READ_AT_ONCE) if many else [manifests]:
        keys_by_path = read(run)
        new |= {key: _index_keys(keys_by_path.get(key.path, ())) for key in run.keys}
    return new


def _index_keys(keys: Iterable[str | None]) -> IndexedManifest:
    listed = list(keys)
    return IndexedManifest(
        # "q" is a signed number of 64 bits, which is what `hash` gives.
        hashes=array("q", [hash(key) for key in listed if key is not None]),
        has_any_file=None in listed,
    )


def _measure(manifest: IndexedManifest) -> int:
    """Return the room that a manifest takes, in hashes; one without keys takes some as well."""
    return len(manifest.hashes) + 8
