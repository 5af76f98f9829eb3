"""Find the files of two snapshots that may differ, by the manifests that only one of them has.

A snapshot is a list of manifests, and a manifest never changes. So those that both snapshots have
are passed over unread. The others hold more than the difference: a manifest that was merely
rewritten holds mostly data files that both snapshots have. These cancel (where they are many, by
digests alone: `differing_files`).

Delete files make it harder, because a new one may apply to data files of a shared manifest:

- A delete file of only one snapshot is a changed delete. Entries that were merely moved to another
  manifest are in both snapshots, and cancel.
- Only a changed delete can give other deletes to a data file that both snapshots have with the same
  sequence number. If it names its data file, that file is looked up in the shared manifests. If it
  applies to a partition, all data files of the partition are candidates.
- If it may apply to any file, or to most files, there is no short list of candidates.

The manifests that may hold a data file, a partition or deletes for a file are found by an index in
memory (`manifest_index`). Iceberg says which deletes apply to a candidate (`partial_scan`).

Example: the earlier snapshot has the manifests M1 {a, b} and M2 {c, d}. The later one has M1,
M3 {c, e} and X1, a delete manifest with a position delete file for b.

    step                                     result
    leave out shared manifests               M1 is not read; M2 {c, d}, M3 {c, e}, X1 are
    cancel data files of equal sequence      c cancels; d is removed, e is added
    look up files of changed deletes         b is in M1, by the index
    plan the candidates                      earlier: b, d; later: b with its deletes, e
"""

from collections.abc import Iterable, Mapping, Set

from icdc_spark.iceberg.changes.differing_files import FILES_AT_ONCE, find_differing
from icdc_spark.iceberg.scan.manifest_entries import (
    DataEntry,
    DeleteEntry,
    read_data_entries,
    read_delete_entries,
)
from icdc_spark.iceberg.scan.manifest_index import KeysByManifest, ManifestIndex
from icdc_spark.iceberg.scan.manifests import Manifests, SnapshotManifests, read_manifests
from icdc_spark.iceberg.scan.partial_scan import plan_partial_scan
from icdc_spark.iceberg.scan.planning import Listing, collect_files, list_files
from icdc_spark.iceberg.table.tables import IcebergTable

DATA_AND_DELETE_INDEX = ManifestIndex()
"""Data files by manifest, of data and of delete manifests. One for the process: the names of
manifests are unique across tables."""

PARTITION_INDEX = ManifestIndex()
"""Partitions by data manifest. Apart from the other index, because a manifest has one entry in
each."""

FULL_LISTING_SHARE = 0.5
"""Share of the shared files from which on listing both snapshots whole costs no more: every
candidate is read from its manifest and then planned again."""


class ManifestComparison:
    """Compares snapshots of one table by their manifests."""

    def __init__(
        self,
        table: IcebergTable,
        index: ManifestIndex = DATA_AND_DELETE_INDEX,
        partitions: ManifestIndex = PARTITION_INDEX,
        at_once: int = FILES_AT_ONCE,
    ) -> None:
        """`at_once` is the number of files that may be described at a time."""
        self._table, self._index, self._partitions = table, index, partitions
        self._at_once = at_once

    def find_affected_files(self, earlier_id: int, later_id: int) -> set[str | None]:
        """Return the data files that changed deletes of two snapshots name; None among them if a
        delete may apply to others too."""
        earlier = read_manifests(self._table, earlier_id)
        later = read_manifests(self._table, later_id)
        return {delete.data_file for delete in self.find_changed_deletes(earlier, later)}

    def list_intermediate(
        self, earlier_id: int, later_id: int, snapshot_id: int, locations: Set[str]
    ) -> Listing:
        """List data files as of `snapshot_id`, none of which both other snapshots have."""
        earlier, later, between = (
            read_manifests(self._table, number) for number in (earlier_id, later_id, snapshot_id)
        )
        # A manifest of both snapshots holds only files that both have, so none of these.
        shared = set(earlier.data.keys) & set(later.data.keys)
        entries = read_data_entries(self._table, between.data.without(shared), locations)
        return self._plan(between, entries, locations)

    def find_changed_deletes(
        self, earlier: SnapshotManifests, later: SnapshotManifests
    ) -> Set[DeleteEntry]:
        """Return the delete files that only one of the snapshots has."""
        before = read_delete_entries(self._table, earlier.deletes.without(set(later.deletes.keys)))
        after = read_delete_entries(self._table, later.deletes.without(set(earlier.deletes.keys)))
        # Without the manifest's path: an entry that moved to another manifest has to cancel.
        return {entry for _, entry in before} ^ {entry for _, entry in after}

    def list_candidates(
        self, earlier: SnapshotManifests, later: SnapshotManifests, deletes: Set[DeleteEntry]
    ) -> tuple[Listing, Listing] | None:
        """List the files of each snapshot that may differ, `deletes` being the changed ones.

        None where these may apply to any file, or to most files.
        """
        named_files = {entry.data_file for entry in deletes if entry.data_file is not None}
        unnamed = {entry.partition for entry in deletes if entry.data_file is None}
        partitions = {partition for partition in unnamed if partition is not None}
        # None among them: a global equality delete, or a partition that can no longer be read.
        if len(partitions) < len(unnamed):
            return None
        shared = earlier.data.within(set(later.data.keys))
        in_partitions = self._narrow_to_partitions(shared, partitions)
        if partitions and in_partitions.live_files > FULL_LISTING_SHARE * shared.live_files:
            return None
        old = earlier.data.without(set(later.data.keys))
        new = later.data.without(set(earlier.data.keys))
        only = self._find_differing(old, new, named_files, partitions)
        before = self._read_entries(old, partitions, only)
        after = self._read_entries(new, partitions, only)
        in_both = before.keys() & after.keys()
        # A file that was removed and added again is younger than deletes that applied to it.
        differing = {file for file in in_both if before[file].sequence != after[file].sequence}
        differing |= {file for file in in_both if before[file].partition in partitions}
        # Files of the changed manifests are known already. The others are in shared manifests, or
        # in no snapshot any more: a delete file may outlive its data file.
        affected = self._look_up(shared, named_files - before.keys() - after.keys())
        for location, entry in self._read_entries(in_partitions, partitions).items():
            if entry.partition in partitions:
                affected[location] = entry
        differing |= (in_both & named_files) | affected.keys()
        removed, added = before.keys() - after.keys(), after.keys() - before.keys()
        return (
            self._plan(earlier, {**affected, **before}, differing | removed),
            self._plan(later, {**affected, **after}, differing | added),
        )

    def _plan(
        self, snapshot: SnapshotManifests, entries: Mapping[str, DataEntry], locations: Set[str]
    ) -> Listing:
        """List these files of one snapshot, each with all deletes that apply to it."""
        if not locations:
            return list_files(self._table, None)
        chosen = [entries[location] for location in locations]
        data = snapshot.data.with_paths({entry.manifest for entry in chosen})
        # Older delete files apply to none of them, so their manifests need no look-up.
        recent = snapshot.deletes.since(min(entry.sequence for entry in chosen))
        deletes = self._index.narrow(recent, locations, self._read_files_of_deletes)
        tasks = plan_partial_scan(self._table, data, deletes)
        return collect_files(self._table, tasks, only=locations, has_deletes=len(deletes) > 0)

    def _find_differing(
        self, old: Manifests, new: Manifests, named_files: Set[str], partitions: Set[str]
    ) -> Set[str] | None:
        """Return the locations of the files that matter; None where all may be described at once.

        `old` and `new` are the manifests of only the earlier and only the later snapshot.
        """
        if not old or not new:
            # Nothing can be in both.
            return None
        counts = [*old.file_counts, *new.file_counts]
        # Format 1 need not say how many files a manifest has.
        if None not in counts and sum(filter(None, counts)) <= self._at_once:
            return None
        differing = find_differing(
            self._table, old, new, partitions=partitions, at_once=self._at_once
        )
        return differing | named_files

    def _read_entries(
        self, manifests: Manifests, partitions: Set[str], only: Set[str] | None = None
    ) -> dict[str, DataEntry]:
        """Return the data files of these manifests, with their partitions if any are wanted."""
        return read_data_entries(self._table, manifests, only, partitions=bool(partitions))

    def _look_up(self, manifests: Manifests, locations: Set[str]) -> dict[str, DataEntry]:
        """Return those of these data files that the manifests hold."""
        if not locations:
            return {}
        narrowed = self._index.narrow(manifests, locations, self._read_data_files)
        return read_data_entries(self._table, narrowed, locations)

    def _narrow_to_partitions(self, manifests: Manifests, partitions: Set[str]) -> Manifests:
        """Return the manifests that may hold data files in these partitions."""
        if not partitions:
            return manifests.within(())
        return self._partitions.narrow(manifests, partitions, self._read_partitions)

    def _read_partitions(self, manifests: Manifests) -> KeysByManifest:
        entries = read_data_entries(self._table, manifests, partitions=True).values()
        # Few of a manifest's many files have a partition of their own.
        pairs = {(entry.manifest, entry.partition) for entry in entries}
        return _group_by_manifest(pair for pair in pairs if pair[1] is not None)

    def _read_data_files(self, manifests: Manifests) -> KeysByManifest:
        entries = read_data_entries(self._table, manifests).items()
        return _group_by_manifest((entry.manifest, location) for location, entry in entries)

    def _read_files_of_deletes(self, manifests: Manifests) -> KeysByManifest:
        entries = read_delete_entries(self._table, manifests)
        return _group_by_manifest((manifest, entry.data_file) for manifest, entry in entries)


def _group_by_manifest(pairs: Iterable[tuple[str, str | None]]) -> KeysByManifest:
    """Return the second parts of the pairs by the first, a manifest's path."""
    keys: dict[str, list[str | None]] = {}
    for manifest, key in pairs:
        keys.setdefault(manifest, []).append(key)
    return keys
