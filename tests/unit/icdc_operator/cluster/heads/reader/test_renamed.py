"""What `icdc doctor` takes for an earlier name of a column, as runs do."""

from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.types import NestedField, StringType, StructType

from icdc_operator.cluster.heads.reader.tables import read_tables
from icdc_operator.cluster.heads.table_facts import TableFacts
from icdc_testing.lake.catalogs.head_lake import HeadLake

pytestmark = pytest.mark.unit


def test_a_field_is_not_followed_by_the_name_of_a_struct_that_another_one_has_now(
    tmp_path: Path,
) -> None:
    def build(number: int, name: str) -> StructType:
        return StructType(NestedField(number, name, StringType(), required=False))

    with closing(HeadLake(tmp_path)) as lake:
        table = lake.create()
        with table.update_schema() as update:
            update.add_column("box", build(8, "a")).add_column("tin", build(9, "b"))
        with table.update_schema() as update:
            update.rename_column("box", "crate").rename_column("tin", "can")
        with table.update_schema() as update:
            update.add_column("box", build(10, "c"))
        facts = read_tables("lake", lake.properties, ["shop.orders"])["shop.orders"]
    assert isinstance(facts, TableFacts)
    assert facts.renamed == {"tin": "can", "tin.b": "can.b"}


def test_a_field_is_followed_by_no_name_that_two_columns_had_side_by_side(tmp_path: Path) -> None:
    with closing(HeadLake(tmp_path)) as lake:
        table = lake.create()
        with table.update_schema() as update:
            update.add_column("one", StringType()).add_column("two", StringType())
        # They exchange their names, and one of them is renamed then.
        for names in (("one", "free"), ("two", "one"), ("free", "two"), ("one", "label")):
            with table.update_schema() as update:
                update.rename_column(*names)
        facts = read_tables("lake", lake.properties, ["shop.orders"])["shop.orders"]
    assert isinstance(facts, TableFacts)
    assert facts.renamed == {"free": "two"}
