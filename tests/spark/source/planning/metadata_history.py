"""Random histories of a table's metadata: every kind of commit that planning can meet."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from icdc_spark.iceberg.scan.planning import list_files
from icdc_testing.lake.metadata_table import MetadataTable

BRANCH = "side"
PARTITIONS = 3
WIDE_UNTIL = 8
"""Deletes that may be for any file come up to this step: what comes later meets them."""


class MetadataHistory:
    """A table and random commits to it; `snapshots` are those that are still retained."""

    def __init__(self, table: MetadataTable, rng: random.Random, *, upgrades: bool) -> None:
        self.table, self.rng, self.upgrades = table, rng, upgrades
        self.log: list[str] = []
        self.removed: list[Any] = []
        self.append()
        self.heads = [self._read_head()]

    @property
    def version(self) -> int:
        """The table's format version at this moment."""
        return int(self.table.java.operations().current().formatVersion())

    @property
    def snapshots(self) -> Sequence[int]:
        """The ids of all retained snapshots, of every branch."""
        return sorted(self.table.load().snapshots)

    def draw_pair(self) -> tuple[int | None, int]:
        """Return two retained snapshots, of any branch, or a few steps apart; None for empty."""
        retained = self.snapshots
        at = self.rng.randrange(len(self.heads))
        near = self.heads[at], self.heads[min(len(self.heads) - 1, at + self.rng.randrange(1, 4))]
        if self.rng.random() < 0.7 and set(near) <= set(retained):
            return near
        return self.rng.choice([None, *retained]), self.rng.choice(retained)

    def step(self) -> None:
        """Make a commit of a random kind."""
        kinds: list[Callable[[], None]] = [
            self.append, self.append, self.overwrite, self.overwrite, self.delete, self.put_back,
            self.compact, self.rewrite_manifests, self.roll_back, self.branch_off, self.expire,
            self.repartition,
        ]  # fmt: skip
        if self.version > 1:
            kinds += [self.delete_rows] * 5 + [self.rewrite_deletes] * 2
        is_wide = len(self.log) < WIDE_UNTIL or self.table.java.spec().isPartitioned()
        if self.version > 1 and is_wide:
            kinds += [self.delete_equal] * 2
        if self.version == 2 and is_wide:
            kinds += [self.delete_in_partition] * 2
        if self.upgrades and self.version < 3:
            kinds.append(self.upgrade)
        kind = self.rng.choice(kinds)
        self.log.append(kind.__name__)
        kind()
        self.table.java.refresh()
        self.heads.append(self._read_head())

    def append(self) -> None:
        """New files, by the kind of append that merges manifests or by the other."""
        java = self.table.java
        change = java.newAppend() if self.rng.random() < 0.5 else java.newFastAppend()
        for _ in range(self.rng.randrange(1, 4)):
            change = change.appendFile(self._make_file())
        change.commit()

    def overwrite(self) -> None:
        """Replace some files by a new one."""
        change = self.table.java.newOverwrite().addFile(self._make_file())
        for file, _ in self._draw_files():
            change = change.deleteFile(file)
            self.removed.append(file)
        change.commit()

    def delete(self) -> None:
        """Delete some files."""
        change = self.table.java.newDelete()
        for file, _ in self._draw_files():
            change = change.deleteFile(file)
            self.removed.append(file)
        change.commit()

    def put_back(self) -> None:
        """Add a deleted file again: later than the deletes that applied to it."""
        live = {file.location() for file, _ in self._list_live()}
        missing = [file for file in self.removed if file.location() not in live]
        if missing:
            self.table.java.newAppend().appendFile(self.rng.choice(missing)).commit()

    def delete_rows(self) -> None:
        """Delete for some data files alone, and rows that replace them."""
        change = self.table.java.newRowDelta().validateFromSnapshot(self._read_head())
        for file, deletes in self._draw_files():
            if self.version >= 3:
                # A vector takes the place of what there was for the same file.
                change = change.addDeletes(self.table.make_vector(file))
                for old in deletes:
                    if old.referencedDataFile() is not None:
                        change = change.removeDeletes(old)
            else:
                by_bounds = self.rng.random() < 0.5
                made = self.table.make_position_deletes(file, target=True, by_bounds=by_bounds)
                change = change.addDeletes(made)
        if self.rng.random() < 0.5:
            change = change.addRows(self._make_file())
        change.commit()

    def delete_in_partition(self) -> None:
        """Position deletes that may concern every file of a partition."""
        change = self.table.java.newRowDelta().validateFromSnapshot(self._read_head())
        for file, _ in self._draw_files():
            change = change.addDeletes(self.table.make_position_deletes(file, target=False))
        change.commit()

    def delete_equal(self) -> None:
        """Equality deletes, for a partition or for all files."""
        change = self.table.java.newRowDelta().validateFromSnapshot(self._read_head())
        for file, _ in self._draw_files():
            change = change.addDeletes(self.table.make_equality_deletes(file))
        change.commit()

    def compact(self) -> None:
        """Make one of some files; their own deletes go with them or are left dangling."""
        change = self.table.java.newRewrite().validateFromSnapshot(self._read_head())
        clean = self.rng.random() < 0.5
        chosen = self._draw_files()
        for file, deletes in chosen:
            change = change.deleteFile(file)
            for delete in deletes if clean else ():
                if delete.referencedDataFile() is not None:
                    change = change.deleteFile(delete)
        if chosen:
            change.addFile(self._make_file()).commit()

    def rewrite_deletes(self) -> None:
        """Write a delete file anew, with the same meaning."""
        for file, deletes in self._draw_files():
            own = [delete for delete in deletes if delete.referencedDataFile() is not None]
            if own:
                make = self.table.make_vector if self.version >= 3 else self._make_own_deletes
                change = self.table.java.newRewrite().validateFromSnapshot(self._read_head())
                for old in own:
                    change = change.deleteFile(old)
                latest = max(int(old.dataSequenceNumber()) for old in own)
                change.addFile(make(file), latest).commit()
                return

    def rewrite_manifests(self) -> None:
        """Write all data files into manifests of another cut."""
        bridge = self.table.bridge
        file = "org.apache.iceberg.ContentFile"
        by = bridge.build_function(file, self.rng.choice(["specId", "location", "partition"]))
        self.table.java.rewriteManifests().clusterBy(by).commit()

    def roll_back(self) -> None:
        """To any snapshot of the past, of whatever branch."""
        target = self.rng.choice(self.snapshots)
        self.table.java.manageSnapshots().setCurrentSnapshot(target).commit()

    def branch_off(self) -> None:
        """Commit to another branch, which begins here or has begun before."""
        java = self.table.java
        if not java.refs().containsKey(BRANCH):
            java.manageSnapshots().createBranch(BRANCH, self._read_head()).commit()
        java.newAppend().appendFile(self._make_file()).toBranch(BRANCH).commit()

    def expire(self) -> None:
        """Expire a snapshot that no branch needs."""
        java = self.table.java
        heads = {ref.snapshotId() for ref in java.refs().values()}
        old = [number for number in self.snapshots if number not in heads]
        if old:
            change = java.expireSnapshots().expireSnapshotId(self.rng.choice(old))
            change.cleanExpiredFiles(False).commit()

    def repartition(self) -> None:
        """New files are partitioned from now on, or no longer."""
        change = self.table.java.updateSpec()
        if not self.table.java.spec().isPartitioned():
            change.addField("p").commit()
        elif self.version > 1:  # in v1 the field would stay, without a value
            change.removeField("p").commit()

    def upgrade(self) -> None:
        """Upgrade to the next format version."""
        change = self.table.java.updateProperties().set("format-version", str(self.version + 1))
        change.commit()

    def _read_head(self) -> int:
        return int(self.table.java.currentSnapshot().snapshotId())

    def _make_own_deletes(self, file: Any) -> Any:
        return self.table.make_position_deletes(file, target=True)

    def _make_file(self) -> Any:
        bounds = self.rng.random() < 0.5
        return self.table.make_data_file(self.rng.randrange(PARTITIONS), bounds=bounds)

    def _draw_files(self) -> list[tuple[Any, list[Any]]]:
        """Up to three live files with their deletes."""
        live = self._list_live()
        return self.rng.sample(live, k=min(len(live), self.rng.randrange(1, 4)))

    def _list_live(self) -> list[tuple[Any, list[Any]]]:
        table = self.table.load()
        head = table.find_current_snapshot()
        listing = list_files(table, head.id if head else None)
        ordered = sorted(listing.files, key=lambda file: file.location)
        tasks = table.bridge.list_elements(listing.group(ordered).tasks)
        return [(task.file(), table.bridge.list_elements(task.deletes())) for task in tasks]
