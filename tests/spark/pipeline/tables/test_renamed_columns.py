"""Columns are renamed in the table while the spec names them as before."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.fields import derive, take
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark

ALIAS = "renamed"
FIELDS: list[Any] = [
    *("*", take("who.name", "name"), take("city", "home.city"), {"exclude": "notes"}),
    {"exclude": "home"},
]
ROWS = {"1": {"id": 1, "who": {"name": "a"}, "city": "x", "n": 1},
        "2": {"id": 2, "who": {"name": "b"}, "city": "y", "n": 2}}  # fmt: skip


@pytest.fixture
def table(lake: Lake) -> str:
    columns = "id int, name string, home struct<city: string, zip: string>, n int, notes string"
    name = lake.create(columns)
    lake.sql(
        f"insert into lake.{name} values (1, 'a', struct('x', '1'), 1, '-'), "
        "(2, 'b', struct('y', '2'), 2, '-')"
    )
    return name


@pytest.fixture
def harness(spark: SparkSession, table: str, clean_indices: str, tmp_path: Path) -> Harness:
    entry = {"name": table, "index": ALIAS, "identifierColumns": ["id"], "routing": ["id"]}
    return Harness(spark, clean_indices, tmp_path, [{**entry, "fields": FIELDS}])


def change(harness: Harness, **entry: Any) -> None:
    """Change the table's entry in the spec; None takes a field out."""
    old = harness.resource["spec"]["tables"][0]
    new = {**old, **entry}
    harness.resource["spec"]["tables"] = [{k: v for k, v in new.items() if v is not None}]


def block_writes(url: str, index: str, *, on: bool) -> None:
    oracle.request(f"{url}/{index}/_settings", "PUT", {"index.blocks.write": on or None})


class Renaming(NamedTuple):
    """Changes of the table, which no change of the spec follows, and documents made before."""

    changes: tuple[str, ...]
    """In SQL; {} stands for the table."""
    expected: Mapping[str, Any]
    """The documents then."""
    anew: bool = False
    """Whether they are exported into a new index."""


LABEL = "alter table {} rename column name to label"
X = "update {} set label = 'x' where id = 1"
FOLLOWED = {**ROWS, "1": {**ROWS["1"], "who": {"name": "x"}}}

RENAMINGS = {
    "twice, beside a column that is excluded": Renaming(
        (
            *(LABEL, "alter table {} rename column notes to remarks"),
            *("alter table {} rename column label to title", X.replace("label", "title")),
        ),
        FOLLOWED,
    ),
    "a struct and inside": Renaming(
        (
            "alter table {} rename column home to address",
            "alter table {} rename column address.city to town",
            "update {} set address = named_struct('town', 'z', 'zip', '1') where id = 1",
        ),
        {**ROWS, "1": {**ROWS["1"], "city": "z"}},
    ),
    "the name is given to a new column": Renaming(
        (
            LABEL,
            "alter table {} add column name string",
            "update {} set name = 'new' where id = 1",
        ),
        {
            # "*" takes the renamed one, as it took a column that no other entry named.
            "1": {**ROWS["1"], "who": {"name": "new"}, "label": "a"},
            "2": {"id": 2, "city": "y", "n": 2, "label": "b"},
        },
        anew=True,
    ),
    "two columns have changed their names": Renaming(
        (
            "alter table {} rename column name to other",
            "alter table {} rename column notes to name",
            "alter table {} rename column other to notes",
            "update {} set name = 'new' where id = 1",
        ),
        {
            "1": {**ROWS["1"], "who": {"name": "new"}},
            "2": {**ROWS["2"], "who": {"name": "-"}},
        },
        anew=True,
    ),
}


@pytest.mark.parametrize("renaming", RENAMINGS.values(), ids=RENAMINGS)
def test_a_renamed_column_is_followed_and_costs_nothing_until_another_has_its_name(
    harness: Harness, table: str, lake: Lake, clean_indices: str, renaming: Renaming
) -> None:
    harness.sync()
    assert oracle.read_index(clean_indices, ALIAS) == ROWS
    for statement in renaming.changes:
        lake.sql(statement.format(f"lake.{table}"))
    (previewed,) = preview(harness)
    assert {one["_id"]: one["_source"] for one in previewed["documents"]} == renaming.expected
    plan = harness.inspect(RunMode.PLAN)
    assert (plan["mode"] == "Export") is renaming.anew, plan
    assert renaming.anew or harness.inspect(RunMode.VERIFY)["equal"] is True
    harness.sync()
    serving = f"{ALIAS}-00000{1 + renaming.anew}"
    assert list(oracle.request(f"{clean_indices}/_alias/{ALIAS}")) == [serving]
    assert oracle.read_index(clean_indices, ALIAS) == renaming.expected
    assert harness.inspect(RunMode.VERIFY)["equal"] is True


def preview(harness: Harness) -> list[dict[str, Any]]:
    """Return what preview says of each table."""
    report = harness.run(RunMode.PREVIEW)
    assert report.result is not None, report.outcome
    tables: list[dict[str, Any]] = report.result["tables"]
    return tables


def test_key_and_routing_follow_their_column_and_the_log_says_its_name(
    harness: Harness,
    table: str,
    lake: Lake,
    clean_indices: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    taken = [take("id", "id"), *FIELDS]
    change(harness, fields=taken)
    harness.sync()
    lake.sql(f"alter table lake.{table} rename column id to number")
    assert harness.inspect(RunMode.VERIFY)["equal"] is True
    lake.sql(f"update lake.{table} set n = 7 where number = 1")
    lake.sql(f"delete from lake.{table} where number = 2")
    lake.sql(f"insert into lake.{table} values (3, 'c', struct('z', '3'), 3, '-')")
    harness.sync()
    assert list(oracle.request(f"{clean_indices}/_alias/{ALIAS}")) == [f"{ALIAS}-000001"]
    assert "`id` is now called `number`" in caplog.text
    third = {"id": 3, "who": {"name": "c"}, "city": "z", "n": 3}
    expected = {"1": {**ROWS["1"], "n": 7}, "3": third}
    assert oracle.read_index(clean_indices, ALIAS) == expected
    assert harness.inspect(RunMode.VERIFY)["equal"] is True


REFUSALS = {
    "expression": (
        {"fields": [take("id", "id"), derive("twice", "n * 2")]},
        "FieldInvalid",
        ("expression `n * 2` of field `twice`", "`n` is now called `count`"),
    ),
    "filter": (
        {"fields": None, "rowFilter": "n > 0"},
        "FilterInvalid",
        ("rowFilter `n > 0`", "`n` is now called `count`"),
    ),
    "columns": (
        {"fields": None, "columns": ["id", "n"]},
        "ColumnNotFound",
        ("columns names `n`", "`n` is now called `count`"),
    ),
    "mapping": (
        {"fields": None, "mapping": {"n": {"type": "integer"}}},
        "ColumnNotFound",
        ("mapping names `n`", "`n` is now called `count`"),
    ),
}


@pytest.mark.parametrize(("entry", "reason", "words"), REFUSALS.values(), ids=REFUSALS)
def test_what_documents_are_made_of_by_its_text_stalls_with_the_new_name(
    harness: Harness,
    table: str,
    lake: Lake,
    clean_indices: str,
    entry: dict[str, Any],
    reason: str,
    words: tuple[str, ...],
) -> None:
    change(harness, **entry)
    harness.sync()
    before = oracle.read_index(clean_indices, ALIAS)
    lake.sql(f"alter table lake.{table} rename column n to count")
    lake.sql(f"update lake.{table} set count = 8 where id = 1")
    status = harness.run_to_stall()
    assert status.reason == reason
    for word in words:
        assert word in str(status.message)
    assert preview(harness)[0]["reason"] == reason
    assert oracle.read_index(clean_indices, ALIAS) == before


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            ("alter table {} drop column label",),
            id="dropped",
        ),
        pytest.param(
            ("alter table {} add column name string", "alter table {} drop column name"),
            id="the last column of that name is gone",
        ),
    ],
)
def test_a_name_whose_column_is_gone_is_not_taken_for_another(
    harness: Harness, table: str, lake: Lake, clean_indices: str, changes: tuple[str, ...]
) -> None:
    harness.sync()
    for statement in (LABEL, *changes, "update {} set n = 7 where id = 1"):
        lake.sql(statement.format(f"lake.{table}"))
    status = harness.run_to_stall()
    assert status.reason == "FieldInvalid"
    assert "`who.name` is from `name`, which is not a column" in str(status.message)
    assert oracle.read_index(clean_indices, ALIAS) == ROWS


def test_a_batch_that_was_begun_before_a_column_was_renamed_is_finished_by_its_old_name(
    harness: Harness, table: str, lake: Lake, clean_indices: str
) -> None:
    harness.sync()
    lake.sql(f"update lake.{table} set name = 'x' where id = 1")
    block_writes(clean_indices, f"{ALIAS}-000001", on=True)
    assert harness.run_to_stall().reason == "TargetReadOnly"
    block_writes(clean_indices, f"{ALIAS}-000001", on=False)
    lake.sql(f"alter table lake.{table} rename column name to label")
    lake.sql(f"update lake.{table} set label = 'y' where id = 2")
    harness.sync()
    assert list(oracle.request(f"{clean_indices}/_alias/{ALIAS}")) == [f"{ALIAS}-000001"]
    documents = oracle.read_index(clean_indices, ALIAS)
    assert [documents[key]["who"]["name"] for key in "12"] == ["x", "y"]
    assert harness.inspect(RunMode.VERIFY)["equal"] is True


def test_a_table_that_is_rolled_back_across_a_rename_is_followed_in_both_directions(
    harness: Harness, table: str, lake: Lake, clean_indices: str
) -> None:
    harness.sync()
    before = lake.read_head(table)
    lake.sql(LABEL.format(f"lake.{table}"))
    lake.sql(X.format(f"lake.{table}"))
    after = lake.read_head(table)
    for head, expected, name in ((after, FOLLOWED, "name"), (before, ROWS, "label")) * 2:
        lake.sql(f"call lake.system.set_current_snapshot('{table}', {head})")
        change(harness, fields=["*", take("who.name", name), *FIELDS[2:]])
        harness.sync()
        assert oracle.read_index(clean_indices, ALIAS) == expected
        assert harness.inspect(RunMode.VERIFY)["equal"] is True
    assert list(oracle.request(f"{clean_indices}/_alias/{ALIAS}")) == [f"{ALIAS}-000001"]
