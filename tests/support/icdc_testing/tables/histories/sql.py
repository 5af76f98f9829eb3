"""Run statements on Spark as users do; the model works out what they mean by itself.

The positions that Spark gave the rows are read afterwards, by key alone, for later operations.
"""

from typing import Any

from icdc_testing.lake.lake import CATALOG, read_rows_one_by_one
from icdc_testing.tables.histories.columns import HISTORY, KEY, PART, TEXT, Cells
from icdc_testing.tables.histories.files import Lineage, StoredFile
from icdc_testing.tables.histories.history import TableHistory, list_rows
from icdc_testing.tables.histories.rows import Description


def update(history: TableHistory) -> Description:
    """UPDATE of one column, or of the key."""
    wanted = history.rng.choice([0, 1, 2])
    column, value, text = history.rng.choice(
        [(TEXT, "z", "'z'"), (PART, 9, "9"), (PART, None, "null")]
    )
    rows = [
        _replace_value(history, row, column, value)
        if _get_value(history, row, PART) == wanted
        else row
        for row in list_rows(history.live)
    ]
    return _run(history, f"update {{}} set {column} = {text} where {PART} = {wanted}", rows)


def delete(history: TableHistory) -> Description:
    """DELETE by key or by another column."""
    column = history.rng.choice([KEY, PART])
    values = [_get_value(history, row, column) for row in list_rows(history.live)]
    wanted = history.rng.choice([value for value in values if value is not None] or [0])
    rows = [row for row in list_rows(history.live) if _get_value(history, row, column) != wanted]
    return _run(history, f"delete from {{}} where {column} = {wanted}", rows)


def merge(history: TableHistory) -> Description:
    """MERGE with deletes, updates and inserts."""
    present = [
        key for row in list_rows(history.live) if (key := _get_value(history, row, KEY)) is not None
    ]
    keys = sorted(history.rng.sample(present, k=min(3, len(present))))
    fresh = history.draw_row()
    new_key = _get_value(history, fresh, KEY)
    # A null key matches nothing, and the model below inserts nulls, also where a default is due.
    if new_key is None or any(column.default is not None for column in history.columns):
        return None
    rows = []
    for row in list_rows(history.live):
        key = _get_value(history, row, KEY)
        if key not in keys:
            rows.append(row)
        elif key % 3:
            rows.append(_replace_value(history, row, TEXT, "merged"))
    bare: dict[int, Any] = {column.id: None for column in history.columns}
    rows.append(
        {**bare, _find_id(history, HISTORY): history.number, _find_id(history, KEY): new_key}
    )
    source = ", ".join(f"({key})" for key in [*keys, new_key])
    return _run(
        history,
        f"merge into {{}} t using (select * from values {source} as v(k)) s on t.{KEY} = s.k "
        "when matched and s.k % 3 = 0 then delete "
        f"when matched then update set t.{TEXT} = 'merged' "
        f"when not matched then insert ({HISTORY}, {KEY}) values ({history.number}, s.k)",
        rows,
    )


def _run(history: TableHistory, statement: str, rows: list[Cells]) -> Description:
    text = statement.format(f"{CATALOG}.{history.name}")
    before = history.head
    with read_rows_one_by_one(history.session):
        history.session.sql(text).collect()
        history.java.refresh()
        # A statement that changes no row makes no snapshot.
        if history.head != before:
            history.record_state(_list_files(history, rows))
    return text


def _list_files(history: TableHistory, rows: list[Cells]) -> dict[str, StoredFile]:
    """Return the live files, with the rows that the model says are in the table."""
    lineage = ["_row_id", "_last_updated_sequence_number"] if history.version >= 3 else []
    names = ", ".join(["_file", "_pos", KEY, *lineage])
    positions: dict[Any, tuple[str, int, Lineage]] = {
        row[KEY]: (row["_file"], row["_pos"], (row[3], row[4]) if lineage else (None, None))
        for row in history.session.sql(f"select {names} from {CATALOG}.{history.name}").collect()
    }
    assert len(positions) == len(rows), f"Spark shows {sorted(map(str, positions))}: {history.log}"
    by_file: dict[str, dict[int, tuple[Cells, Lineage]]] = {}
    for row in rows:
        file, position, line = positions[_get_value(history, row, KEY)]
        by_file.setdefault(file, {})[position] = row, line
    tasks = history.table.bridge.drain(history.java.newScan().planFiles())
    files = [
        _describe_file(history, task, by_file) for task in history.table.bridge.list_elements(tasks)
    ]
    return {stored.location: stored for stored in files}


def _describe_file(
    history: TableHistory, task: Any, by_file: dict[str, dict[int, tuple[Cells, Lineage]]]
) -> StoredFile:
    file = task.file()
    location, spec_id = str(file.location()), int(file.specId())
    spec = history.java.specs().get(spec_id)
    mine = by_file.get(location, {})
    rows = [mine.get(at, ({}, (None, None))) for at in range(int(file.recordCount()))]
    dead = frozenset(at for at in range(len(rows)) if at not in mine)
    deletes = history.table.bridge.list_elements(task.deletes())
    own = [delete for delete in deletes if delete.referencedDataFile() is not None]
    old = history.live.get(location)
    return StoredFile(
        java=file,
        location=location,
        spec_id=spec_id,
        partition=str(spec.partitionToPath(file.partition())),
        rows=old.rows if old else [cells for cells, _ in rows],
        lineage=old.lineage if old else [line for _, line in rows],
        dead=dead,
        # Positions that an equality delete took may be marked too: they are dead all the same.
        marked=dead if deletes else frozenset(),
        own_deletes=tuple(own),
    )


def _replace_value(history: TableHistory, row: Cells, column: str, value: Any) -> Cells:
    made = {entry.id: row.get(entry.id, entry.default) for entry in history.columns}
    return {**made, _find_id(history, column): value}


def _get_value(history: TableHistory, row: Cells, column: str) -> Any:
    return row.get(_find_id(history, column))


def _find_id(history: TableHistory, column: str) -> int:
    return next(entry.id for entry in history.columns if entry.name == column)
