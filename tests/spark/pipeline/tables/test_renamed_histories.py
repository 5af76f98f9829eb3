"""Random renames of columns, by a spec that is sometimes mended.

Each value says which column it was written into, whatever that is called. So a document with the
values of two columns, or of another one than the name in the spec means, is seen at once.
"""

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_testing.lake.lake import COPY_ON_WRITE, MERGE_ON_READ, Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.fields import take
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark

ALIAS = "named"
STEPS = 8


class NamedTable:
    """A table whose columns get, lose and exchange names, and what was written into each."""

    def __init__(self, lake: Lake, rng: random.Random, mode: str) -> None:
        self.lake, self.rng = lake, rng
        self.name = lake.create("id int, a string, b string", mode=mode)
        self.columns = {"a": 1, "b": 2}
        self.rows: dict[int, dict[int, str]] = {}
        self.had: list[dict[str, int]] = []
        self.log: list[str] = []
        self._next = 3
        self.write()

    def sql(self, text: str) -> None:
        """Run SQL in which {} stands for the table."""
        self.log.append(text)
        self.lake.sql(text.format(f"lake.{self.name}"))

    def write(self) -> None:
        """Insert a row; it is found again by the values of its columns."""
        key = len(self.rows)
        row = {column: f"{key}-{column}" for column in self.columns.values()}
        self.rows[key] = row
        values = ", ".join(f"'{row[column]}'" for column in self.columns.values())
        names = ", ".join(self.columns)
        self.sql(f"insert into {{}} (id, {names}) values ({key}, {values})")

    def alter(self) -> None:
        """Rename, add or drop a column, each name out of a few."""
        free = [name for name in "abcd" if name not in self.columns]
        used = list(self.columns)
        if len(used) > 1 and self.rng.random() < 0.15:
            name = self.rng.choice(used)
            self._remember()
            del self.columns[name]
            self.sql(f"alter table {{}} drop column {name}")
        elif free and self.rng.random() < 0.25:
            self._remember()
            self.columns[free[0]] = self._next
            self._next += 1
            self.sql(f"alter table {{}} add column {free[0]} string")
        elif free:
            name, new = self.rng.choice(used), self.rng.choice(free)
            self._remember()
            # At its place, as SQL says names and values in the order of the columns.
            self.columns = {new if one == name else one: of for one, of in self.columns.items()}
            self.sql(f"alter table {{}} rename column {name} to {new}")

    def find(self, name: str) -> int | None:
        """Return the column that a name means, by its number; None if it means none."""
        if name in self.columns:
            return self.columns[name]
        last = next((one[name] for one in self._list_newest() if name in one), None)
        return last if last in self.columns.values() else None

    def list_documents(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the documents with what the column of a name has."""
        column = self.find(name)
        made: dict[str, dict[str, Any]] = {}
        for key, row in self.rows.items():
            value = row.get(column or 0)
            made[str(key)] = {"id": key, **({} if value is None else {"who": {"name": value}})}
        return made

    def _remember(self) -> None:
        if dict(self.columns) not in self.had:
            self.had.append(dict(self.columns))

    def _list_newest(self) -> list[dict[str, int]]:
        # Iceberg counts a schema that comes back as the one that it was.
        return [one for one in reversed(self.had) if one != self.columns]


@pytest.mark.parametrize("number", range(2))
def test_whatever_columns_are_called_documents_have_the_values_of_one_column(
    spark: SparkSession,
    lake: Lake,
    clean_indices: str,
    tmp_path: Path,
    rng: random.Random,
    number: int,
) -> None:
    table = NamedTable(lake, rng, rng.choice([COPY_ON_WRITE, MERGE_ON_READ]))
    name = "a"
    wanted = {"name": table.name, "index": ALIAS, "identifierColumns": ["id"]}
    harness = Harness(spark, clean_indices, tmp_path, [wanted])
    (entry,) = harness.resource["spec"]["tables"]
    for _ in range(STEPS):
        for _ in range(rng.randint(0, 3)):
            table.alter()
        table.write()
        if rng.random() < 0.3:
            name = rng.choice(list(table.columns))
        table.log.append(f"from {name}")
        entry["fields"] = [take("id", "id"), take("who.name", name)]
        if table.find(name) is None:
            assert harness.run_to_stall().reason == "FieldInvalid", table.log
            name = rng.choice(list(table.columns))
            entry["fields"] = [take("id", "id"), take("who.name", name)]
        harness.sync()
        expected = table.list_documents(name)
        assert oracle.read_index(clean_indices, ALIAS) == expected, table.log
        assert harness.inspect(RunMode.VERIFY)["equal"] is True, table.log
