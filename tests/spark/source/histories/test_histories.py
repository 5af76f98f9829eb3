"""Random histories: after any commits, the batch between two snapshots makes one the other.

The oracle is independent of the diff: both snapshots are collected and compared in Python.
"""

import json
import random

import pytest
from pyspark.errors import PySparkException

from icdc_spark.diff.strategies import Strategy
from icdc_testing.lake.lake import COPY_ON_WRITE, MERGE_ON_READ, Lake, apply_batch

pytestmark = pytest.mark.spark

COLUMNS = ("p", "a", "b")
STEPS = 5
HISTORIES_PER_TABLE = 1

Rows = dict[str, str]


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
    until = lake.head(history.name)
    after = documents(lake, history.name, until)
    for since in history.rng.sample(history.snapshots, k=2):
        before = documents(lake, history.name, since)
        check(lake, history, since, before, after)


def check(lake: Lake, history: "KeyedHistory", since: int, before: Rows, after: Rows) -> None:
    """Check that every strategy makes one snapshot the other, without sending unchanged rows."""
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    for strategy, batch in lake.ways(history.name, since).items():
        context = f"{history.log} since {since} by {strategy}"
        assert apply_batch(before, batch) == after, context
        sent = {op.id for op in batch.ops}
        assert changed <= sent, context
        for op in batch.ops:
            assert op.expect == ("c" if op.id not in before else "u" if op.id in after else "d"), (
                context
            )
        generous = (Strategy.STREAM, Strategy.LINEAGE)  # they may send rows that are as before
        if history.mode == COPY_ON_WRITE and strategy not in generous:
            assert sent == changed, context


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
        self.snapshots = [lake.head(self.name)]

    def step(self) -> None:
        """Make one commit of a random kind; Iceberg may refuse it."""
        kind = self.rng.choice(
            [self.insert, self.update, self.update, self.delete, self.merge, self.rekey,
             self.compact, self.rewrite, self.rollback]
        )  # fmt: skip
        kind()
        self.snapshots.append(self.lake.head(self.name))

    def insert(self) -> None:
        """Insert a few rows."""
        rows = ", ".join(self._row(self._new_id()) for _ in range(self.rng.randrange(1, 7)))
        self._run(f"insert into lake.{self.name} values {rows}")

    def update(self) -> None:
        """Update one column of some rows, sometimes to the value that it has."""
        column = self.rng.choice(COLUMNS)
        value = column if self.rng.random() < 0.2 else self._value(column)
        self._run(f"update lake.{self.name} set {column} = {value} where {self._where()}")

    def delete(self) -> None:
        """Delete some rows."""
        self._run(f"delete from lake.{self.name} where {self._where()}")

    def merge(self) -> None:
        """Delete, update and insert in one commit."""
        keys = {self.rng.randrange(self.next_id) for _ in range(2)} | {self._new_id()}
        self._run(
            f"merge into lake.{self.name} t using (select * from values "
            f"{', '.join(map(self._row, sorted(keys)))} as v(id, p, a, b)) s "
            "on t.id = s.id when matched and s.id % 3 = 0 then delete "
            "when matched then update set t.a = s.a, t.p = s.p when not matched then insert *"
        )

    def rekey(self) -> None:
        """Give a row another key."""
        old = self.rng.randrange(self.next_id)
        self._run(f"update lake.{self.name} set id = {self._new_id()} where id = {old}")

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

    def rollback(self) -> None:
        """Roll back to any earlier snapshot."""
        target = self.rng.choice(self.snapshots)
        self._run(f"call lake.system.set_current_snapshot('{self.name}', {target}L)")

    def _run(self, sql: str) -> None:
        self.log.append(sql)
        try:
            self.lake.sql(sql)
        except PySparkException as error:
            pytest.fail(f"{self.log}: {error}")

    def _new_id(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def _row(self, identity: int) -> str:
        return f"({identity}, {', '.join(self._value(column) for column in COLUMNS)})"

    def _value(self, column: str) -> str:
        choices = {
            "p": ["0", "1", "null"],
            "a": ["'x'", "'y'", "''", "null"],
            "b": ["0D", "-0.0D", "1.5D", "double('NaN')", "null"],
        }
        return self.rng.choice(choices[column])

    def _where(self) -> str:
        one = self.rng.randrange(self.next_id)
        return self.rng.choice([f"id = {one}", f"id % 3 = {one % 3}", "p = 1", "a is null"])


def documents(lake: Lake, name: str, snapshot_id: int) -> Rows:
    """Return document texts by id, computed in Python."""
    documents_by_id: Rows = {}
    for row in lake.sql(f"select * from lake.{name} version as of {snapshot_id}"):
        values = {
            key: value
            for key, value in row.asDict().items()
            if value is not None and value == value  # NaN is not equal to itself
        }
        assert str(row["id"]) not in documents_by_id
        documents_by_id[str(row["id"])] = json.dumps(values, separators=(",", ":"))
    return documents_by_id
