"""Columns that come into a table, or change, and that earlier rows have values in nevertheless."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark

ALIAS = "earlier"

Act = Callable[[str], None]
"""Does something to the table of a name."""


def rename_and_replace(lake: Lake, _: Path) -> tuple[str, Act, Act]:
    """The column of the filter, which documents do not have, makes way for another one."""
    name = lake.create("id int, extra string, country string")
    lake.sql(f"insert into lake.{name} values (1, 'a', 'NL'), (2, 'b', 'DE')")

    def replace(name: str) -> None:
        lake.sql(f"alter table lake.{name} rename column country to old_country")
        lake.sql(f"alter table lake.{name} add column country string")
        lake.sql(f"insert into lake.{name} values (3, 'c', 'DE', 'NL')")

    def fill(name: str) -> None:
        lake.sql(f"update lake.{name} set country = 'NL' where id = 2")

    return name, replace, fill


@pytest.mark.parametrize(
    ("prepare", "entry", "changed"),
    [
        (
            rename_and_replace,
            {"columns": ["id", "extra"], "rowFilter": "country = 'NL'"},
            {"3": {"id": 3, "extra": "c"}},
        ),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_a_column_with_values_in_earlier_rows_leads_to_an_export(
    lake: Lake,
    spark: SparkSession,
    clean_indices: str,
    tmp_path: Path,
    prepare: Callable[[Lake, Path], tuple[str, Act, Act]],
    entry: dict[str, Any],
    changed: dict[str, Any],
) -> None:
    name, change, change_again = prepare(lake, tmp_path)
    table = {"name": name, "index": ALIAS, "identifierColumns": ["id"], **entry}
    harness = Harness(spark, clean_indices, tmp_path, [table])
    harness.sync()
    change(name)
    harness.sync()
    assert oracle.read_index(clean_indices, ALIAS) == changed
    assert harness.inspect(RunMode.VERIFY)["equal"] is True
    # What follows is a batch as before, unless the table has another schema again.
    change_again(name)
    harness.sync()
    assert harness.inspect(RunMode.VERIFY)["equal"] is True
