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


def bring_and_add(lake: Lake, folder: Path) -> tuple[str, Act, Act]:
    """Files that were brought in have a column that the table gets later."""
    rows = lake.session.sql("select 1 as id, 'NL' as country, 'hidden' as extra")
    rows.write.parquet(str(folder / "plain"))
    name = lake.create("id int, country string")
    source = f"`parquet`.`{folder}/plain`"
    lake.sql(f"call lake.system.add_files(table => '{name}', source_table => '{source}')")

    def add(name: str) -> None:
        lake.sql(f"alter table lake.{name} add column extra string")
        lake.sql(f"insert into lake.{name} values (2, 'NL', 'shown')")

    def add_another(name: str) -> None:
        lake.sql(f"insert into lake.{name} values (3, 'NL', null)")

    return name, add, add_another


def drop_and_roll_back(lake: Lake, _: Path) -> tuple[str, Act, Act]:
    """The table is rolled back to a snapshot that had a column which was dropped since."""
    name = lake.create("id int, country string, extra string")
    lake.sql(f"insert into lake.{name} values (1, 'NL', 'back')")
    first = lake.read_head(name)
    lake.sql(f"alter table lake.{name} drop column extra")
    lake.sql(f"insert into lake.{name} values (2, 'NL')")

    def roll_back(name: str) -> None:
        lake.sql(f"call lake.system.rollback_to_snapshot('{name}', {first})")

    def delete(name: str) -> None:
        lake.sql(f"delete from lake.{name} where id = 1")

    return name, roll_back, delete


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


def widen_hashed(lake: Lake, _: Path) -> tuple[str, Act, Act]:
    """The filter hashes a column, whose rows pass once it has been widened."""
    name = lake.create("id int, country string")
    lake.sql(f"insert into lake.{name} values (1, 'NL')")

    def widen(name: str) -> None:
        lake.sql(f"alter table lake.{name} alter column id type bigint")
        lake.sql(f"insert into lake.{name} values (2, 'DE')")

    def delete(name: str) -> None:
        lake.sql(f"delete from lake.{name} where id = 1")

    return name, widen, delete


@pytest.mark.parametrize(
    ("prepare", "entry", "changed"),
    [
        (
            bring_and_add,
            {},
            {
                "1": {"id": 1, "country": "NL", "extra": "hidden"},
                "2": {"id": 2, "country": "NL", "extra": "shown"},
            },
        ),
        (drop_and_roll_back, {}, {"1": {"id": 1, "country": "NL", "extra": "back"}}),
        (
            rename_and_replace,
            {"columns": ["id", "extra"], "rowFilter": "country = 'NL'"},
            {"3": {"id": 3, "extra": "c"}},
        ),
        (
            widen_hashed,
            {"rowFilter": "hash(id) = hash(bigint(id))"},
            {"1": {"id": 1, "country": "NL"}, "2": {"id": 2, "country": "DE"}},
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


@pytest.mark.parametrize(
    ("added", "is_anew"),
    [
        ("other string", False),
        ("s.c int", False),
        ("other array<struct<b:int>>", False),
        ("other map<string,string>", False),
        ("extra string", True),
        ("s.b int", True),
        # Inside a list it is not looked for.
        ("l.element.c int", True),
    ],
)
def test_a_table_with_a_name_mapping_is_exported_anew_only_where_its_files_have_the_column(
    lake: Lake,
    spark: SparkSession,
    clean_indices: str,
    tmp_path: Path,
    added: str,
    *,
    is_anew: bool,
) -> None:
    row = "1 as id, 'hidden' as extra, named_struct('a', 1, 'b', 2) as s"
    row += ", array(named_struct('d', 1)) as l"
    lake.session.sql(f"select {row}").write.parquet(str(tmp_path / "plain"))
    name = lake.create("id int, s struct<a:int>, l array<struct<d:int>>")
    source = f"`parquet`.`{tmp_path}/plain`"
    lake.sql(f"call lake.system.add_files(table => '{name}', source_table => '{source}')")
    table = {"name": name, "index": ALIAS, "identifierColumns": ["id"]}
    harness = Harness(spark, clean_indices, tmp_path, [table])
    harness.sync()
    lake.sql(f"alter table lake.{name} add column {added}")
    lake.sql(f"insert into lake.{name} (id) values (2)")
    harness.sync()
    number = 2 if is_anew else 1
    assert list(oracle.request(f"{clean_indices}/_alias/{ALIAS}")) == [f"{ALIAS}-{number:06d}"]
    assert harness.inspect(RunMode.VERIFY)["equal"] is True
