"""Random histories: after any commits, the batch between two snapshots makes one the other.

The oracle is independent of the diff: both snapshots are collected and compared in Python, where
the fields of documents are worked out too.
"""

import json
import random
from typing import Any

import pytest
from pyspark.errors import PySparkException

from icdc_spark.diff.strategies import Strategy
from icdc_testing.lake.lake import COPY_ON_WRITE, MERGE_ON_READ, Lake, apply_batch
from icdc_testing.tables.fields import parse_fields
from icdc_testing.tables.histories.checking import format_canonical_json
from icdc_testing.target.oracle import convert_fields as drop_nulls

from .shapes import EVERY_ROW, FIELDS, FILTERS, Filter, Shape, Values

pytestmark = pytest.mark.spark

COLUMNS = ("p", "a", "b")
STEPS = 5
HISTORIES_PER_TABLE = 1

Rows = dict[str, str | None]
"""Documents by id, as JSON; None for a row that has none, since an expression fails on it."""


@pytest.mark.parametrize(
    ("mode", "version"),
    [
        pytest.param(COPY_ON_WRITE, 2, id="cow-v2"),
        pytest.param(COPY_ON_WRITE, 3, id="cow-v3"),
        pytest.param(MERGE_ON_READ, 2, id="mor-v2"),
        pytest.param(MERGE_ON_READ, 3, id="mor-v3"),
    ],
)
@pytest.mark.parametrize("number", range(HISTORIES_PER_TABLE))
def test_any_history_leads_from_one_snapshot_to_the_other(
    lake: Lake, rng: random.Random, mode: str, version: int, number: int
) -> None:
    history = KeyedHistory(lake, rng, mode, version)
    for _ in range(STEPS):
        history.step()
    until = lake.read_head(history.name)
    plain, shaped = history.rng.sample(history.snapshots, k=2)
    check(lake, history, (plain, until), [], EVERY_ROW)
    check(
        *(lake, history, (shaped, until)),
        history.rng.sample(FIELDS, k=5),
        history.rng.choice(FILTERS),
    )


def check(
    lake: Lake,
    history: "KeyedHistory",
    snapshots: tuple[int, int],
    shape: Shape,
    row_filter: Filter,
) -> None:
    """Check that every strategy makes one snapshot the other, without sending unchanged rows."""

    def list_at(made: Shape) -> list[Rows]:
        return [list_documents(lake, history.name, at, made, row_filter) for at in snapshots]

    before, after = list_at(shape)
    changed, unlike = list_changed(before, after), list_changed(*list_at([]))
    wishes: dict[str, Any] = {"fields": parse_fields(*(entry for entry, _ in shape))}
    wishes |= {"routing": ("id",) if shape else (), "row_filter": row_filter[0]}
    for strategy, batch in lake.compute_ways(history.name, snapshots[0], **wishes).items():
        names = [entry["name"] for entry, _ in shape]
        context = (
            f"{history.log} since {snapshots[0]} by {strategy} with {names} where {row_filter[0]}"
        )
        made = [op._replace(doc=format_canonical_json(op.doc)) for op in batch.ops]
        index = apply_batch(list_indexed(before), batch._replace(ops=made))
        assert index == list_indexed(after), context
        sent = {op.id for op in batch.ops}
        assert changed <= sent, context
        for op in batch.ops:
            written, refused = ("u", "r") if op.id in before else ("c", "n")
            expected = "d" if op.id not in after else written if after[op.id] else refused
            assert op.expect == expected, context
            assert op.routing == (op.id if shape else None), context
        generous = (Strategy.STREAM, Strategy.LINEAGE)  # they may send rows that are as before
        if history.mode == COPY_ON_WRITE and strategy not in generous:
            # A field may be as before though what it reads is not.
            assert changed <= sent <= unlike, context


def list_changed(before: Rows, after: Rows) -> set[str]:
    """Return the ids of rows that came, went, or have another document."""
    return {
        key
        for key in before.keys() | after.keys()
        if (key in before, before.get(key)) != (key in after, after.get(key))
    }


def list_indexed(rows: Rows) -> dict[str, str]:
    """Return the documents of the rows that have one."""
    return {key: text for key, text in rows.items() if text is not None}


class KeyedHistory:
    """A table and random commits to it; keys stay unique."""

    def __init__(self, lake: Lake, rng: random.Random, mode: str, version: int) -> None:
        self.lake, self.rng, self.mode = lake, rng, mode
        self.next_id = 0
        self.log: list[str] = []
        self.name = lake.create(
            "id int, p int, a string, b double",
            mode=mode,
            version=version,
            partitioned=rng.choice(["", "p", "bucket(2, id)"]),
        )
        self.insert()
        self.snapshots = [lake.read_head(self.name)]

    def step(self) -> None:
        """Make one commit of a random kind; Iceberg may refuse it."""
        kind = self.rng.choice(
            [self.insert, self.update, self.update, self.delete, self.merge, self.rekey,
             self.compact, self.rewrite, self.roll_back]
        )  # fmt: skip
        kind()
        self.snapshots.append(self.lake.read_head(self.name))

    def insert(self) -> None:
        """Insert a few rows."""
        rows = ", ".join(self._draw_row(self._take_id()) for _ in range(self.rng.randrange(1, 7)))
        self._run(f"insert into lake.{self.name} values {rows}")

    def update(self) -> None:
        """Update one column of some rows, sometimes to the value that it has."""
        column = self.rng.choice(COLUMNS)
        value = column if self.rng.random() < 0.2 else self._draw_value(column)
        self._run(f"update lake.{self.name} set {column} = {value} where {self._draw_condition()}")

    def delete(self) -> None:
        """Delete some rows."""
        self._run(f"delete from lake.{self.name} where {self._draw_condition()}")

    def merge(self) -> None:
        """Delete, update and insert in one commit."""
        keys = {self.rng.randrange(self.next_id) for _ in range(2)} | {self._take_id()}
        self._run(
            f"merge into lake.{self.name} t using (select * from values "
            f"{', '.join(map(self._draw_row, sorted(keys)))} as v(id, p, a, b)) s "
            "on t.id = s.id when matched and s.id % 3 = 0 then delete "
            "when matched then update set t.a = s.a, t.p = s.p when not matched then insert *"
        )

    def rekey(self) -> None:
        """Give a row another key."""
        old = self.rng.randrange(self.next_id)
        self._run(f"update lake.{self.name} set id = {self._take_id()} where id = {old}")

    def compact(self) -> None:
        """Rewrite all data files."""
        self._run(
            f"call lake.system.rewrite_data_files(table => '{self.name}', "
            "options => map('rewrite-all', 'true', 'min-input-files', '1'))"
        )

    def rewrite(self) -> None:
        """Rewrite the delete files."""
        self._run(
            f"call lake.system.rewrite_position_delete_files(table => '{self.name}', "
            "options => map('rewrite-all', 'true'))"
        )

    def roll_back(self) -> None:
        """Roll back to any earlier snapshot."""
        target = self.rng.choice(self.snapshots)
        self._run(f"call lake.system.set_current_snapshot('{self.name}', {target}L)")

    def _run(self, sql: str) -> None:
        self.log.append(sql)
        try:
            self.lake.sql(sql)
        except PySparkException as error:
            pytest.fail(f"{self.log}: {error}")

    def _take_id(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def _draw_row(self, identity: int) -> str:
        return f"({identity}, {', '.join(self._draw_value(column) for column in COLUMNS)})"

    def _draw_value(self, column: str) -> str:
        choices = {
            "p": ["0", "1", "null"],
            "a": ["'x'", "'y'", "''", "null"],
            "b": ["0D", "-0.0D", "1.5D", "double('NaN')", "null"],
        }
        return self.rng.choice(choices[column])

    def _draw_condition(self) -> str:
        one = self.rng.randrange(self.next_id)
        return self.rng.choice([f"id = {one}", f"id % 3 = {one % 3}", "p = 1", "a is null"])


def list_documents(
    lake: Lake, name: str, snapshot_id: int, shape: Shape, row_filter: Filter
) -> Rows:
    """Return documents by id, worked out in Python; without a shape all columns."""
    documents_by_id: Rows = {}
    for row in lake.sql(f"select * from lake.{name} version as of {snapshot_id}"):
        if not row_filter[1](row.asDict()):
            continue
        assert str(row["id"]) not in documents_by_id
        documents_by_id[str(row["id"])] = work_out(row.asDict(), shape)
    return documents_by_id


def work_out(values: Values, shape: Shape) -> str | None:
    """Return the document of a row; None where a field fails on it."""
    try:
        made = {entry["name"]: make(values) for entry, make in shape} if shape else values
    except ZeroDivisionError:
        return None
    document: dict[str, Any] = {}
    for name, value in drop_nulls(made).items():
        *above, last = name.split(".")
        position = document
        for part in above:
            position = position.setdefault(part, {})
        position[last] = value
    return json.dumps(document, sort_keys=True)
