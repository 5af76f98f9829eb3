"""The files by which two snapshots can differ, at a cost that follows the manifests that changed.

Both snapshots are made of manifests, and those that they share are passed over unread. What then
remains of either side is more than what differs: a manifest that was merely rewritten holds mostly
files that the other side has too.

Deletes make it harder. A new delete file may concern a data file in a manifest that both share,
so such files are looked for (`manifest_index`). A data file that both sides hold, with the same
sequence number, can only have other deletes where a delete file is of one side alone; deletes that
were merely moved to another manifest cancel. Which deletes a file then has is left to Iceberg
(`partial_scan`). A delete file of one side that is for a partition may concern all files of that;
where one may concern any file, or most of them, both sides are listed whole. Not so for deletes
that tell themselves which documents are gone (`key_deletes`).

Files that are listed twice in one snapshot (`add_files` without its check) are keys that occur
twice; they are noticed as such, later.
"""

from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from icdc_spark.iceberg.changes.key_deletes import KeyDeletes, key_deletes, naming_keys
from icdc_spark.iceberg.jvm.errors import source_errors
from icdc_spark.iceberg.scan.manifest_index import ManifestIndex, Told
from icdc_spark.iceberg.scan.manifests import (
    DataEntry,
    DeleteEntry,
    Manifests,
    SnapshotManifests,
    data_entries,
    delete_entries,
    manifests_of,
)
from icdc_spark.iceberg.scan.partial_scan import partial_scan
from icdc_spark.iceberg.scan.planning import Listing, list_files, listing_of
from icdc_spark.iceberg.table.tables import IcebergTable

Entries = Mapping[str, DataEntry]

_INDEX = ManifestIndex()
"""One for the process: manifests have unique names, whatever table they are of."""

_PARTITIONS = ManifestIndex()
"""Another, of the partitions that manifests are about in place of files."""

_MOST = 0.5
"""The share of all files from which on listing both sides whole is no dearer."""


class Sides(NamedTuple):
    """The files of the earlier and of the later snapshot among which all differences are, but for
    those that `key_deletes` made."""

    earlier: Listing
    later: Listing
    key_deletes: KeyDeletes | None = None


def list_changed(
    table: IcebergTable,
    from_id: int | None,
    to_id: int,
    *,
    keys: Set[int] = frozenset(),
    index: ManifestIndex = _INDEX,
    partitions: ManifestIndex = _PARTITIONS,
) -> Sides:
    """Like listing both snapshots, without most files that are the same in both.

    Neither need descend from the other. Equality deletes of fields with the ids `keys` may be taken
    at their word. Raises Gap when a snapshot is no longer retained.
    """
    if from_id is None:
        return Sides(list_files(table, None), list_files(table, to_id))
    for snapshot_id in (from_id, to_id):
        table.require(snapshot_id)
    with source_errors(table.name):
        earlier, later = manifests_of(table, from_id), manifests_of(table, to_id)
        comparison = Comparison(table, index, partitions)
        deletes = comparison.changed_deletes(earlier, later)

        def sides(told: Set[DeleteEntry]) -> Sides:
            found = comparison.sides(earlier, later, deletes - told)
            return found or Sides(list_files(table, from_id), list_files(table, to_id))

        named = naming_keys(table, from_id, to_id, earlier, deletes, keys)
        found = sides(named)
        if not named:
            return found
        if _put_in_again(found):
            return sides(frozenset())
        fresh = later.deletes.without(set(earlier.deletes.keys))
        return found._replace(key_deletes=key_deletes(table, fresh, named))


def _put_in_again(sides: Sides) -> bool:
    """Whether a file of both snapshots is younger in the later one."""
    before = {file.location: file.sequence for file in sides.earlier.files}
    return any(
        before.get(file.location, file.sequence) != file.sequence for file in sides.later.files
    )


class Comparison:
    """Of snapshots of one table, by what is in their manifests."""

    def __init__(
        self,
        table: IcebergTable,
        index: ManifestIndex = _INDEX,
        partitions: ManifestIndex = _PARTITIONS,
    ) -> None:
        self._table, self._index, self._partitions = table, index, partitions

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
        self, earlier: SnapshotManifests, later: SnapshotManifests, deletes: Set[DeleteEntry]
    ) -> Sides | None:
        """The files of either side that can differ, `deletes` being those of one side alone; None
        where these may concern most files."""
        targets = {entry.target for entry in deletes if entry.target is not None}
        wide = {entry.partition for entry in deletes if entry.target is None}
        partitions = {each for each in wide if each is not None}
        if len(partitions) < len(wide):
            return None
        shared = earlier.data.within(set(later.data.keys))
        among = self._within(shared, partitions)
        if partitions and among.live_files > _MOST * shared.live_files:
            return None
        before = self._entries(earlier.data.without(set(later.data.keys)), partitions)
        after = self._entries(later.data.without(set(earlier.data.keys)), partitions)
        kept = before.keys() & after.keys()
        # A file that was taken out and put in again is later than deletes that concerned it.
        doubtful = {place for place in kept if before[place].sequence != after[place].sequence}
        doubtful |= {place for place in kept if before[place].partition in partitions}
        found = self._find(shared, targets - before.keys() - after.keys())
        for place, entry in self._entries(among, partitions).items():
            if entry.partition in partitions:
                found[place] = entry
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

    def _entries(self, manifests: Manifests, partitions: Set[str]) -> dict[str, DataEntry]:
        """What is in these manifests, with partitions where these are looked for."""
        return data_entries(self._table, manifests, partitions=bool(partitions))

    def _within(self, manifests: Manifests, partitions: Set[str]) -> Manifests:
        """The manifests that may hold data files in these partitions."""
        if not partitions:
            return manifests.within(())
        return self._partitions.narrow(manifests, partitions, self._look_at_partitions)

    def _look_at_partitions(self, manifests: Manifests) -> Told:
        found = data_entries(self._table, manifests, partitions=True).values()
        known = {(entry.manifest, entry.partition) for entry in found}
        return _by_manifest(each for each in known if each[1] is not None)

    def _find(self, manifests: Manifests, places: Set[str]) -> dict[str, DataEntry]:
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
