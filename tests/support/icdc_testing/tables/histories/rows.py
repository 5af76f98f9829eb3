"""Change rows as writers do: the operations that change what a table has.

An operation makes at most one commit and says in words what it did; None where it cannot be done
now.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from icdc_testing.tables.histories.columns import HISTORY, KEY, PART, TEXT, Cells
from icdc_testing.tables.histories.files import Lineage, StoredFile
from icdc_testing.tables.histories.history import TableHistory

Description = str | None


def insert(history: TableHistory) -> Description:
    """Append new rows, by either kind of append."""
    rows = [history.draw_row() for _ in range(history.rng.randint(1, 5))]
    new = history.files.write_data(_drop_lineage(rows), history.columns)
    java = history.java
    # A fast append adds a manifest; the other one may merge manifests, which lists files anew.
    update = java.newFastAppend() if history.rng.random() < 0.5 else java.newAppend()
    for stored in new:
        update = update.appendFile(stored.java)
    history.commit(update, new=new)
    return f"insert {_list_keys(history, rows)}"


def copy_on_write(history: TableHistory) -> Description:
    """Rewrite files: some of their rows are deleted, changed or given another key."""
    old = history.draw_files()
    if not old:
        return None
    keeps = history.keeps_lineage()
    rows = [
        row
        for row_and_lineage in history.list_live_rows(old)
        if (row := _rewrite_row(history, *row_and_lineage))
    ]
    # An overwrite may bring new rows as well, as MERGE does.
    if history.rng.random() < 0.3:
        rows += _drop_lineage([history.draw_row()])
    new = history.files.write_data(rows, history.columns, keep_lineage=keeps)
    update = history.java.newOverwrite()
    for stored in old:
        update = update.deleteFile(stored.java)
    for stored in new:
        update = update.addFile(stored.java)
    history.commit(update, deleted=old, new=new)
    return f"copy on write {_list_names(old)} -> {_list_keys(history, [row for row, _ in rows])}"


def merge_on_read(history: TableHistory) -> Description:
    """Delete rows by position, and write some of them anew, changed or under another key."""
    chosen = _draw_positions(history)
    if not history.has_deletes or not chosen:
        return None
    deleted = [history.live[path].rows[at] for path, mine in chosen.items() for at in mine]
    written = [_change_row(history, cells) for cells in deleted if history.rng.random() < 0.5]
    if history.rng.random() < 0.3:
        written.append(history.draw_row())
    new = history.files.write_data(_drop_lineage(written), history.columns)
    update = history.begin_row_delta()
    update, changed = delete_positions(history, update, chosen)
    for stored in new:
        update = update.addRows(stored.java)
    history.commit(update, new=new, changed=changed)
    return f"merge on read {_list_keys(history, deleted)} -> {_list_keys(history, written)}"


def upsert(history: TableHistory) -> Description:
    """Delete by key, as streaming writers do, and write some of the keys anew in that commit."""
    return _delete_equal(history, [HISTORY, KEY])


def delete_by_values(history: TableHistory) -> Description:
    """Delete by any values, and write some of the keys anew in that commit."""
    choices = [[HISTORY, KEY], [KEY], [PART], [TEXT, PART]]
    return _delete_equal(history, history.rng.choice(choices))


def _delete_equal(history: TableHistory, chosen: Sequence[str]) -> Description:
    by = [column for column in history.columns if column.name in chosen]
    files = [stored for stored in history.live.values() if stored.live]
    if not history.has_deletes or not files:
        return None
    like = history.rng.choice(files)
    positions = history.rng.sample(like.live, k=min(2, len(like.live)))
    wanted = [[like.rows[at].get(column.id) for column in by] for at in positions]
    deletes = history.files.write_equality_deletes(like, by, [like.rows[at] for at in positions])
    # Deletes of an unpartitioned spec apply to all data files, the others to their partition.
    everywhere = history.java.specs().get(like.spec_id).isUnpartitioned()
    changed, deleted = [], []
    for stored in history.live.values():
        if everywhere or (stored.spec_id, stored.partition) == (like.spec_id, like.partition):
            hit = [at for at in stored.live if [stored.rows[at].get(c.id) for c in by] in wanted]
            # Not `marked`: no position is named, so a rewrite of position deletes leaves it out.
            changed.append(replace(stored, dead=stored.dead | set(hit)))
            deleted += [stored.rows[at] for at in hit]
    written = [_change_row(history, cells) for cells in deleted if history.rng.random() < 0.5]
    new = history.files.write_data(_drop_lineage(written), history.columns)
    update = history.begin_row_delta().addDeletes(deletes)
    for stored in new:
        update = update.addRows(stored.java)
    history.commit(update, new=new, changed=changed)
    return f"delete by {chosen} {_list_keys(history, deleted)} -> {_list_keys(history, written)}"


def replace_partitions(history: TableHistory) -> Description:
    """Overwrite dynamically: the partitions of the new rows have nothing else afterwards."""
    rows = [history.draw_row() for _ in range(history.rng.randint(1, 3))]
    new = history.files.write_data(_drop_lineage(rows), history.columns)
    everything = history.java.spec().isUnpartitioned()
    parts = {(stored.spec_id, stored.partition) for stored in new}
    deleted = [
        stored
        for stored in history.live.values()
        if everything or (stored.spec_id, stored.partition) in parts
    ]
    update = history.java.newReplacePartitions()
    for stored in new:
        update = update.addFile(stored.java)
    history.commit(update, deleted=deleted, new=new)
    return f"replace partitions {sorted(parts)} by {_list_keys(history, rows)}"


def overwrite(history: TableHistory) -> Description:
    """Replace everything by some of the rows that were there, some of them changed."""
    everything = history.table.bridge.get_statics("org.apache.iceberg.expressions.Expressions")
    old = list(history.live.values())
    rows = [_change_row(history, cells) for cells, _ in history.list_live_rows(old)]
    rows = [row for row in rows if history.rng.random() < 0.7]
    new = history.files.write_data(_drop_lineage(rows), history.columns)
    update = history.java.newOverwrite().overwriteByRowFilter(everything.alwaysTrue())
    for stored in new:
        update = update.addFile(stored.java)
    history.commit(update, deleted=old, new=new)
    return f"overwrite by {_list_keys(history, rows)}"


def drop_files(history: TableHistory) -> Description:
    """Delete whole files without reading any."""
    deleted = history.draw_files()
    if not deleted:
        return None
    update = history.java.newDelete()
    for stored in deleted:
        update = update.deleteFile(stored.java)
    history.commit(update, deleted=deleted)
    return f"drop {_list_names(deleted)}"


def delete_positions(
    history: TableHistory, update: Any, chosen: Mapping[str, Sequence[int]]
) -> tuple[Any, list[StoredFile]]:
    """Add the deletion of these positions to a row delta, as the format version does it."""
    files = [history.live[path] for path in chosen]
    if history.version >= 3:
        wanted = {
            stored.location: (stored, sorted(stored.marked | set(chosen[stored.location])))
            for stored in files
        }
        made = history.files.write_vectors(wanted)
        for stored in files:
            # A data file has at most one vector, which replaces all its deletes of before.
            for old in stored.own_deletes:
                update = update.removeDeletes(old)
            update = update.addDeletes(made[stored.location])
        own = {path: (vector,) for path, vector in made.items()}
        return update, [_hide_positions(stored, chosen, own[stored.location]) for stored in files]
    changed = []
    for group in _group_files(history, files):
        deletes = history.files.write_position_deletes(
            group, [chosen[stored.location] for stored in group]
        )
        update = update.addDeletes(deletes)
        for stored in group:
            own_deletes = (*stored.own_deletes, deletes) if len(group) == 1 else stored.own_deletes
            changed.append(_hide_positions(stored, chosen, own_deletes))
    return update, changed


def _hide_positions(
    stored: StoredFile, chosen: Mapping[str, Sequence[int]], own: tuple[Any, ...]
) -> StoredFile:
    mine = frozenset(chosen[stored.location])
    return replace(stored, dead=stored.dead | mine, marked=stored.marked | mine, own_deletes=own)


def _group_files(history: TableHistory, files: Sequence[StoredFile]) -> list[list[StoredFile]]:
    """Group the files whose deletes are in one delete file: one file, or those of a partition."""
    # Both granularities of Spark: `write.delete.granularity` file and partition.
    if history.rng.random() < 0.5:
        return [[stored] for stored in files]
    parts: dict[tuple[int, str], list[StoredFile]] = {}
    for stored in files:
        parts.setdefault((stored.spec_id, stored.partition), []).append(stored)
    return list(parts.values())


def _draw_positions(history: TableHistory) -> dict[str, list[int]]:
    live_positions = {
        stored.location: stored.live for stored in history.draw_files(3) if stored.live
    }
    return {
        path: sorted(history.rng.sample(live, k=history.rng.randint(1, min(3, len(live)))))
        for path, live in live_positions.items()
    }


def _rewrite_row(
    history: TableHistory, cells: Cells, lineage: Lineage
) -> tuple[Cells, Lineage] | None:
    """Return the row that copy-on-write writes; None if it deletes the row.

    A changed row keeps its row id, and the new commit is its last update.
    """
    dice = history.rng.random()
    if dice < 0.5:
        return cells, lineage
    return None if dice < 0.65 else (_change_row(history, cells), (lineage[0], None))


def _change_row(history: TableHistory, cells: Cells) -> Cells:
    """Return the row with other values, now and then under another key."""
    made = history.change_row(cells)
    return history.rekey_row(made) if history.rng.random() < 0.15 else made


def _drop_lineage(rows: Sequence[Cells]) -> list[tuple[Cells, Lineage]]:
    return [(row, (None, None)) for row in rows]


def _list_keys(history: TableHistory, rows: Sequence[Cells]) -> list[Any]:
    return [row.get(history.key_column.id) for row in rows]


def _list_names(files: Sequence[StoredFile]) -> list[str]:
    return [stored.location.rpartition("/")[2].removesuffix(".parquet") for stored in files]
