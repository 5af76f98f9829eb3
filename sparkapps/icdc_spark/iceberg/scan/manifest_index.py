"""Which data files a manifest is about, remembered for as long as the process lives.

A small commit of deletes may concern files in any manifest of a table. A manifest never changes,
so each is looked into once, and for the next commit only those are read that it brings or needs.
What is remembered is a hash for each file, in bounded number; equal hashes cost a look in vain.
"""

import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

from icdc_spark.iceberg.scan.manifests import ManifestKey, Manifests

CAPACITY = 1_000_000
"""Files that are remembered in all, 8 MB; manifests that were not asked for longest go first."""


@dataclass(frozen=True, kw_only=True)
class About:
    """What one manifest is about: hashes of data files' locations, or of any data file at all."""

    hashes: "array[int]"
    any_file: bool = False

    def concerns(self, hashes: Set[int]) -> bool:
        """Whether it may be about one of these."""
        return self.any_file or not hashes.isdisjoint(self.hashes)


Told = Mapping[str, Iterable[str | None]]
"""By a manifest's path the locations of the data files that it is about, None for any file."""


class ManifestIndex:
    """What is known of manifests. May be used by several threads."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._known: OrderedDict[ManifestKey, About] = OrderedDict()
        self._size = 0

    def narrow(
        self, manifests: Manifests, places: Set[str], look: Callable[[Manifests], Told]
    ) -> Manifests:
        """Those that may be about one of these data files; `look` reads what is not yet known.

        All of them where there are more files in them than can be remembered.
        """
        with self._lock:
            found = {key: self._known[key] for key in manifests.keys if key in self._known}
            for key in found:
                self._known.move_to_end(key)
        unknown = manifests.without(found.keys())
        if unknown.live_files > self._capacity:
            return manifests
        if unknown:
            told = look(unknown)
            fresh = {key: _about(told.get(key.path, ())) for key in unknown.keys}
            self._remember(fresh)
            found |= fresh
        hashes = {hash(place) for place in places}
        return manifests.within({key for key, about in found.items() if about.concerns(hashes)})

    def _remember(self, fresh: Mapping[ManifestKey, About]) -> None:
        with self._lock:
            for key, about in fresh.items():
                if key not in self._known:
                    self._known[key] = about
                    self._size += _weight(about)
            while self._size > self._capacity:
                _, gone = self._known.popitem(last=False)
                self._size -= _weight(gone)


def _about(places: Iterable[str | None]) -> About:
    listed = list(places)
    return About(
        hashes=array("q", [hash(place) for place in listed if place is not None]),
        any_file=None in listed,
    )


def _weight(about: About) -> int:
    """An empty one is remembered too, and takes room."""
    return len(about.hashes) + 8
