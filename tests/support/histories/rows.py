"""What writers do to rows: the operations that change what a table holds.

An operation makes at most one commit and says in words what it did; None where it cannot be done
now.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from histories.columns import HISTORY, KEY, PART, TEXT, Cells
from histories.files import Lineage, Stored
from histories.history import History

Said = str | None


def insert(history: History) -> Said:
    """New rows, by either kind of append."""
    rows = [history.new_row() for _ in range(history.rng.randint(1, 5))]
    new = history.files.data(_fresh(rows), history.columns)
    java = history.java
    update = java.newFastAppend() if history.rng.random() < 0.5 else java.newAppend()
    for stored in new:
        update = update.appendFile(stored.java)
    history.commit(update, new=new)
    return f"insert {_keys(history, rows)}"


def copy_on_write(history: History) -> Said:
    """Rewrites files: of their rows some are deleted, changed, given another key, most kept."""
    old = history.some_files()
    if not old:
        return None
    keeps = history.keeps_lineage()
    rows = [row for each in history.live_rows(old) if (row := _rewritten(history, *each))]
    if history.rng.random() < 0.3:
        rows += _fresh([history.new_row()])
    new = history.files.data(rows, history.columns, keep_lineage=keeps)
    update = history.java.newOverwrite()
    for stored in old:
        update = update.deleteFile(stored.java)
    for stored in new:
        update = update.addFile(stored.java)
    history.commit(update, gone=old, new=new)
    return f"copy on write {_names(old)} -> {_keys(history, [row for row, _ in rows])}"


def merge_on_read(history: History) -> Said:
    """Deletes rows where they are, and writes some of them anew, changed or under another key."""
    chosen = _some_positions(history)
    if not history.has_deletes or not chosen:
        return None
    deleted = [history.live[place].rows[at] for place, mine in chosen.items() for at in mine]
    written = [_changed(history, cells) for cells in deleted if history.rng.random() < 0.5]
    if history.rng.random() < 0.3:
        written.append(history.new_row())
    new = history.files.data(_fresh(written), history.columns)
    update = history.row_delta()
    update, changed = mark(history, update, chosen)
    for stored in new:
        update = update.addRows(stored.java)
    history.commit(update, new=new, changed=changed)
    return f"merge on read {_keys(history, deleted)} -> {_keys(history, written)}"


def upsert(history: History) -> Said:
    """Deletes by key, as streaming writers do, and writes some of the keys anew in that commit."""
    return _delete_equal(history, [HISTORY, KEY])


def equality_delete(history: History) -> Said:
    """Deletes by any values, and writes some of the keys anew in that commit."""
    choices = [[HISTORY, KEY], [KEY], [PART], [TEXT, PART]]
    return _delete_equal(history, history.rng.choice(choices))


def _delete_equal(history: History, chosen: Sequence[str]) -> Said:
    by = [each for each in history.columns if each.name in chosen]
    files = [stored for stored in history.live.values() if stored.live]
    if not history.has_deletes or not files:
        return None
    like = history.rng.choice(files)
    positions = history.rng.sample(like.live, k=min(2, len(like.live)))
    wanted = [[like.rows[at].get(each.id) for each in by] for at in positions]
    deletes = history.files.equality_deletes(like, by, [like.rows[at] for at in positions])
    everywhere = history.java.specs().get(like.spec_id).isUnpartitioned()
    changed, deleted = [], []
    for stored in history.live.values():
        if everywhere or (stored.spec_id, stored.partition) == (like.spec_id, like.partition):
            hit = [at for at in stored.live if [stored.rows[at].get(c.id) for c in by] in wanted]
            changed.append(replace(stored, dead=stored.dead | set(hit)))
            deleted += [stored.rows[at] for at in hit]
    written = [_changed(history, cells) for cells in deleted if history.rng.random() < 0.5]
    new = history.files.data(_fresh(written), history.columns)
    update = history.row_delta().addDeletes(deletes)
    for stored in new:
        update = update.addRows(stored.java)
    history.commit(update, new=new, changed=changed)
    return f"delete by {chosen} {_keys(history, deleted)} -> {_keys(history, written)}"


def replace_partitions(history: History) -> Said:
    """A dynamic overwrite: the partitions that new rows fall into hold nothing else afterwards."""
    rows = [history.new_row() for _ in range(history.rng.randint(1, 3))]
    new = history.files.data(_fresh(rows), history.columns)
    everything = history.java.spec().isUnpartitioned()
    parts = {(stored.spec_id, stored.partition) for stored in new}
    gone = [
        stored
        for stored in history.live.values()
        if everything or (stored.spec_id, stored.partition) in parts
    ]
    update = history.java.newReplacePartitions()
    for stored in new:
        update = update.addFile(stored.java)
    history.commit(update, gone=gone, new=new)
    return f"replace partitions {sorted(parts)} by {_keys(history, rows)}"


def overwrite(history: History) -> Said:
    """Everything is replaced by some of what was there, some of it changed."""
    everything = history.table.bridge.statics("org.apache.iceberg.expressions.Expressions")
    old = list(history.live.values())
    rows = [_changed(history, cells) for cells, _ in history.live_rows(old)]
    rows = [row for row in rows if history.rng.random() < 0.7]
    new = history.files.data(_fresh(rows), history.columns)
    update = history.java.newOverwrite().overwriteByRowFilter(everything.alwaysTrue())
    for stored in new:
        update = update.addFile(stored.java)
    history.commit(update, gone=old, new=new)
    return f"overwrite by {_keys(history, rows)}"


def drop_files(history: History) -> Said:
    """A delete that takes whole files and reads none."""
    gone = history.some_files()
    if not gone:
        return None
    update = history.java.newDelete()
    for stored in gone:
        update = update.deleteFile(stored.java)
    history.commit(update, gone=gone)
    return f"drop {_names(gone)}"


def mark(
    history: History, update: Any, chosen: Mapping[str, Sequence[int]]
) -> tuple[Any, list[Stored]]:
    """Adds the deletion of these positions to a row delta, by the means of the format version."""
    files = [history.live[place] for place in chosen]
    if history.version >= 3:
        wanted = {
            each.location: (each, sorted(each.marked | set(chosen[each.location])))
            for each in files
        }
        made = history.files.vectors(wanted)
        for each in files:
            # There is one vector for a file; it takes the place of all deletes before it.
            for old in each.own_deletes:
                update = update.removeDeletes(old)
            update = update.addDeletes(made[each.location])
        own = {place: (vector,) for place, vector in made.items()}
        return update, [_marked(each, chosen, own[each.location]) for each in files]
    changed = []
    for group in _groups(history, files):
        deletes = history.files.position_deletes(group, [chosen[each.location] for each in group])
        update = update.addDeletes(deletes)
        for each in group:
            own_deletes = (*each.own_deletes, deletes) if len(group) == 1 else each.own_deletes
            changed.append(_marked(each, chosen, own_deletes))
    return update, changed


def _marked(stored: Stored, chosen: Mapping[str, Sequence[int]], own: tuple[Any, ...]) -> Stored:
    mine = frozenset(chosen[stored.location])
    return replace(stored, dead=stored.dead | mine, marked=stored.marked | mine, own_deletes=own)


def _groups(history: History, files: Sequence[Stored]) -> list[list[Stored]]:
    """Files whose deletes go into one delete file: each alone, or those of a partition."""
    if history.rng.random() < 0.5:
        return [[each] for each in files]
    parts: dict[tuple[int, str], list[Stored]] = {}
    for each in files:
        parts.setdefault((each.spec_id, each.partition), []).append(each)
    return list(parts.values())


def _some_positions(history: History) -> dict[str, list[int]]:
    found = {each.location: each.live for each in history.some_files(3) if each.live}
    return {
        place: sorted(history.rng.sample(live, k=history.rng.randint(1, min(3, len(live)))))
        for place, live in found.items()
    }


def _rewritten(history: History, cells: Cells, lineage: Lineage) -> tuple[Cells, Lineage] | None:
    """What copy-on-write makes of a row; a changed row keeps its id and is of the new commit."""
    dice = history.rng.random()
    if dice < 0.5:
        return cells, lineage
    return None if dice < 0.65 else (_changed(history, cells), (lineage[0], None))


def _changed(history: History, cells: Cells) -> Cells:
    """The row with other values, now and then under another key."""
    made = history.changed_row(cells)
    return history.rekeyed_row(made) if history.rng.random() < 0.15 else made


def _fresh(rows: Sequence[Cells]) -> list[tuple[Cells, Lineage]]:
    return [(row, (None, None)) for row in rows]


def _keys(history: History, rows: Sequence[Cells]) -> list[Any]:
    return [row.get(history.key_column.id) for row in rows]


def _names(files: Sequence[Stored]) -> list[str]:
    return [each.location.rpartition("/")[2].removesuffix(".parquet") for each in files]
