"""The files by which two snapshots can differ, at a cost that follows the manifests that changed.

Both snapshots are made of manifests, and those that they share are passed over unread. What then
remains of either side is more than what differs: a manifest that was merely rewritten holds mostly
files that the other side has too.

Deletes make it harder. A new delete file may concern a data file in a manifest that both share,
so such files are looked for (`manifest_index`). A data file that both sides hold, with the same
sequence number, can only have other deletes where a delete file is of one side alone; deletes that
were merely moved to another manifest cancel. Which deletes a file then has is left to Iceberg
(`partial_scan`). Where a delete file of one side is not for one data file alone, both sides are
listed whole.

Files that are listed twice in one snapshot (`add_files` without its check) are keys that occur
twice; they are noticed as such, later.
"""

from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from icdc_spark.iceberg.errors import source_errors
from icdc_spark.iceberg.manifest_index import ManifestIndex, Told
from icdc_spark.iceberg.manifests import (
    DataEntry,
    DeleteEntry,
    Manifests,
    SnapshotManifests,
    data_entries,
    delete_entries,
    manifests_of,
)
from icdc_spark.iceberg.partial_scan import partial_scan
from icdc_spark.iceberg.planning import Listing, list_files, listing_of
from icdc_spark.iceberg.tables import IcebergTable

Entries = Mapping[str, DataEntry]

_INDEX = ManifestIndex()
"""One for the process: manifests have unique names, whatever table they are of."""


class Sides(NamedTuple):
    """The files of the earlier and of the later snapshot among which all differences are."""

    earlier: Listing
    later: Listing


def list_changed(
    table: IcebergTable, from_id: int | None, to_id: int, *, index: ManifestIndex = _INDEX
) -> Sides:
    """Like listing both snapshots, without most files that are the same in both.

    Neither need descend from the other. Raises Gap when one is no longer retained.
    """
    if from_id is None:
        return Sides(list_files(table, None), list_files(table, to_id))
    for snapshot_id in (from_id, to_id):
        table.require(snapshot_id)
    with source_errors(table.name):
        earlier, later = manifests_of(table, from_id), manifests_of(table, to_id)
        comparison = Comparison(table, index)
        deletes = comparison.changed_deletes(earlier, later)
        targets = {entry.target for entry in deletes if entry.target is not None}
        if all(entry.target is not None for entry in deletes):
            return comparison.sides(earlier, later, targets)
    # Equality deletes, and position deletes for whole partitions, may concern any file.
    return Sides(list_files(table, from_id), list_files(table, to_id))


class Comparison:
    """Of snapshots of one table, by what is in their manifests."""

    def __init__(self, table: IcebergTable, index: ManifestIndex = _INDEX) -> None:
        self._table, self._index = table, index

    def concerned(self, earlier_id: int, later_id: int) -> set[str | None]:
        """The data files that delete files of one of two snapshots alone are for; None if any."""
        earlier = manifests_of(self._table, earlier_id)
        later = manifests_of(self._table, later_id)
        return {entry.target for entry in self.changed_deletes(earlier, later)}

    def list_between(
        self, earlier_id: int, later_id: int, snapshot_id: int, places: Set[str]
    ) -> Listing:
        """Data files of a snapshot, none of which is at both of two others."""
        earlier, later, side = (
            manifests_of(self._table, number) for number in (earlier_id, later_id, snapshot_id)
        )
        shared = set(earlier.data.keys) & set(later.data.keys)
        entries = data_entries(self._table, side.data.without(shared), places)
        return self._listing(side, entries, places)

    def changed_deletes(
        self, earlier: SnapshotManifests, later: SnapshotManifests
    ) -> Set[DeleteEntry]:
        """The delete files of one side alone."""
        before = delete_entries(self._table, earlier.deletes.without(set(later.deletes.keys)))
        after = delete_entries(self._table, later.deletes.without(set(earlier.deletes.keys)))
        return {entry for _, entry in before} ^ {entry for _, entry in after}

    def sides(
        self, earlier: SnapshotManifests, later: SnapshotManifests, targets: Set[str]
    ) -> Sides:
        """The files of either side that can differ; other deletes than before concern `targets`."""
        before = data_entries(self._table, earlier.data.without(set(later.data.keys)))
        after = data_entries(self._table, later.data.without(set(earlier.data.keys)))
        kept = before.keys() & after.keys()
        # A file that was taken out and put in again is later than deletes that concerned it.
        doubtful = {place for place in kept if before[place].sequence != after[place].sequence}
        shared = earlier.data.within(set(later.data.keys))
        found = self._find(shared, targets - before.keys() - after.keys())
        doubtful |= (kept & targets) | found.keys()
        removed, added = before.keys() - after.keys(), after.keys() - before.keys()
        return Sides(
            self._listing(earlier, {**found, **before}, doubtful | removed),
            self._listing(later, {**found, **after}, doubtful | added),
        )

    def _listing(self, side: SnapshotManifests, entries: Entries, wanted: Set[str]) -> Listing:
        """The wanted files of one snapshot, each with all deletes that apply to it."""
        if not wanted:
            return list_files(self._table, None)
        chosen = [entries[place] for place in wanted]
        data = side.data.at({entry.manifest for entry in chosen})
        recent = side.deletes.since(min(entry.sequence for entry in chosen))
        deletes = self._index.narrow(recent, wanted, self._look_at_deletes)
        tasks = partial_scan(self._table, data, deletes)
        return listing_of(self._table, tasks, only=wanted, has_deletes=len(deletes) > 0)

    def _find(self, manifests: Manifests, places: Set[str]) -> Entries:
        """Where these data files are, as far as they are in these manifests."""
        if not places:
            return {}
        narrowed = self._index.narrow(manifests, places, self._look_at_data)
        return data_entries(self._table, narrowed, places)

    def _look_at_data(self, manifests: Manifests) -> Told:
        found = data_entries(self._table, manifests).items()
        return _by_manifest((entry.manifest, place) for place, entry in found)

    def _look_at_deletes(self, manifests: Manifests) -> Told:
        found = delete_entries(self._table, manifests)
        return _by_manifest((manifest, entry.target) for manifest, entry in found)


def _by_manifest(found: Iterable[tuple[str, str | None]]) -> Told:
    told: dict[str, list[str | None]] = {}
    for manifest, place in found:
        told.setdefault(manifest, []).append(place)
    return told
