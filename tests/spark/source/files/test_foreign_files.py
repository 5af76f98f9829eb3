"""Tables whose files other engines have written, and files that came without Iceberg's field ids.

Every commit is followed, and held against a plain read of the table.
"""

from pathlib import Path
from typing import Any

import pytest

from icdc_api.errors import FileUnreadable
from icdc_testing.lake.java.writers import JavaWriter
from icdc_testing.lake.lake import COPY_ON_WRITE, MERGE_ON_READ, Lake, Op
from icdc_testing.runs.following import Follower

pytestmark = pytest.mark.spark

# What Spark writes of a plain row of every type into files of these formats, as Hive would.
PLAIN_COLUMNS = {
    "flag": "true",
    "n": "7",
    "l": "9223372036854775807L",
    "f": "float('0.5')",
    "d": "double('-0.0')",
    "small": "cast('-12.50' as decimal(9,2))",
    "huge": "cast('1234567890123456789012345678.0123456789' as decimal(38,10))",
    "day": "date'2024-03-15'",
    "at": "timestamp'2024-03-15 14:30:00.123456Z'",
    "s": "'a\u00e9'",
    "b": "X'00ff10'",
    "st": "named_struct('x', 1, 'y', named_struct('z', 'deep'))",
    "li": "array(1, null, 3)",
    "ls": "array(named_struct('p', 'q'), null)",
    "m": "map('k', 1, 'n', null)",
}
"""Column and value."""


def select_plain_rows(first: int, count: int, *more: str, without: str = "") -> str:
    """Return a query of `count` rows from id `first` on; odd ones are null except for `more`."""
    cells = [
        f"if(id % 2 = 0, {value}, null) as {name}"
        for name, value in PLAIN_COLUMNS.items()
        if name != without
    ]
    shown = ", ".join(["cast(id as int) id", *cells, *more])
    return f"select {shown} from range({first}, {first + count})"


def create_table(lake: Lake, *, without: str = "", **options: Any) -> str:
    """Create a table with the columns of `select_plain_rows`; return its name."""
    described = lake.session.sql(select_plain_rows(0, 1, without=without)).dtypes
    columns = ", ".join(f"{name} {kind}" for name, kind in described)
    return lake.create(f"{columns}, part string", **options)


def bring(lake: Lake, name: str, folder: Path, file_format: str = "parquet") -> None:
    """Add the files of a folder as they are, by Iceberg's `add_files`."""
    source = f"`{file_format}`.`{folder}`"
    lake.sql(f"call lake.system.add_files(table => '{name}', source_table => '{source}')")


@pytest.mark.parametrize(
    ("file_format", "mode", "version"),
    [
        ("avro", COPY_ON_WRITE, 2),
        ("orc", MERGE_ON_READ, 2),
        ("avro", MERGE_ON_READ, 3),
        ("orc", COPY_ON_WRITE, 3),
    ],
)
def test_files_of_other_formats_are_followed(
    lake: Lake, file_format: str, mode: str, version: int
) -> None:
    written_as = f", 'write.format.default'='{file_format}'"
    name = create_table(lake, mode=mode, version=version, partitioned="part", properties=written_as)
    lake.sql(f"insert into lake.{name} {select_plain_rows(0, 6, 'if(id < 4, 1, 2) part')}")
    follower = Follower(lake, name)
    assert len(follower.apply_newest()) == 6
    lake.sql(f"update lake.{name} set n = 8, li = array(), m = null where id in (1, 2)")
    assert follower.apply_newest() == [("u", "1"), ("u", "2")]
    lake.sql(f"delete from lake.{name} where id in (0, 5)")
    lake.sql(f"alter table lake.{name} set tblproperties ('write.format.default'='parquet')")
    lake.sql(f"insert into lake.{name} {select_plain_rows(6, 2, '1 part')}")
    assert follower.apply_newest() == [("c", "6"), ("c", "7"), ("d", "0"), ("d", "5")]
    lake.compact(name)
    assert follower.apply_newest() == []


@pytest.mark.parametrize(
    ("mode", "file_format", "without"),
    [
        (COPY_ON_WRITE, "parquet", ""),
        (MERGE_ON_READ, "parquet", ""),
        (MERGE_ON_READ, "orc", "at"),
    ],
)
def test_files_of_a_hive_table_are_followed(
    lake: Lake, tmp_path: Path, mode: str, file_format: str, without: str
) -> None:
    """They have no field ids, and not the column that their folders are named by.

    Iceberg itself does not read timestamps that Hive or Spark wrote into ORC.
    """
    brought = tmp_path / "hive"
    part = "if(id = 3, null, concat('p ', id % 2)) part"
    rows = lake.session.sql(select_plain_rows(0, 4, part, without=without))
    rows.coalesce(1).write.partitionBy("part").format(file_format).save(str(brought))
    name = create_table(lake, without=without, mode=mode, partitioned="part")
    bring(lake, name, brought, file_format)
    follower = Follower(lake, name)
    assert len(follower.apply_newest()) == 4
    assert '"part":"p 0"' in follower.documents["0"]
    lake.sql(f"update lake.{name} set s = 'changed' where id in (0, 3)")
    assert follower.apply_newest() == [("u", "0"), ("u", "3")]
    lake.sql(f"alter table lake.{name} rename column s to words")
    lake.sql(f"alter table lake.{name} drop column n")
    lake.sql(f"alter table lake.{name} add column late string")
    lake.sql(f"insert into lake.{name} (id, part) values (9, 'p 0')")
    follower = Follower(lake, name)
    assert len(follower.apply_newest()) == 5
    lake.sql(f"delete from lake.{name} where id = 1")
    lake.sql(f"update lake.{name} set part = 'moved' where id = 2")
    assert follower.apply_newest() == [("d", "1"), ("u", "2")]
    lake.compact(name)
    assert follower.apply_newest() == []


def test_old_timestamps_of_96_bits_are_followed(lake: Lake, tmp_path: Path) -> None:
    brought, conf = tmp_path / "old", lake.session.conf
    moments = ["2024-03-15 14:30:00.123456Z", "1969-12-31 23:59:59.999999Z", "1900-01-01 00:00:00Z"]
    rows = ", ".join(f"({at}, timestamp'{moment}')" for at, moment in enumerate(moments))
    conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        lake.session.sql(f"select * from values {rows} as v(id, at)").write.parquet(str(brought))
    finally:
        conf.unset("spark.sql.parquet.outputTimestampType")
    name = lake.create("id int, at timestamp")
    bring(lake, name, brought)
    follower = Follower(lake, name)
    follower.apply_newest()

    assert follower.documents == {
        "0": '{"id":0,"at":"2024-03-15T14:30:00.123456Z"}',
        "1": '{"id":1,"at":"1969-12-31T23:59:59.999999Z"}',
        "2": '{"id":2,"at":"1900-01-01T00:00:00.000000Z"}',
    }
    lake.sql(f"update lake.{name} set at = at + interval 1 microsecond where id = 1")
    assert follower.apply_newest() == [("u", "1")]


@pytest.mark.parametrize("version", [2, 3])
def test_upserts_as_flink_writes_them_are_followed(lake: Lake, version: int) -> None:
    name = lake.create("id int, a string", mode=MERGE_ON_READ, version=version)
    follower = Follower(lake, name)

    def upsert(*rows: tuple[int, str]) -> None:
        JavaWriter(lake.load_table(name)).upsert(
            [{"id": key, "a": text} for key, text in rows], "id"
        )

    upsert((1, "a"), (2, "b"), (1, "c"))
    assert follower.apply_newest() == [("c", "1"), ("c", "2")]
    upsert((2, "d"), (3, "e"))
    upsert((3, "f"), (3, "g"), (4, "h"))
    assert follower.apply_newest() == [("c", "3"), ("c", "4"), ("u", "2")]
    JavaWriter(lake.load_table(name)).delete_equal([{"id": 1}, {"id": 9}])
    upsert((5, "i"), (4, "h"))
    written = follower.apply_newest()
    assert ("d", "1") in written
    assert ("c", "5") in written
    lake.compact(name)
    assert follower.apply_newest() == []
    upsert((5, "j"))
    assert follower.apply_newest() == [("u", "5")]


def test_files_whose_columns_nobody_can_know_are_refused_by_name(
    lake: Lake, tmp_path: Path
) -> None:
    """Beside columns that Spark refuses; Spark's reader takes them by their order, as Iceberg."""
    name = lake.create("id int, a string")
    lake.session.sql("select 1 id, 'x' a").write.parquet(str(tmp_path / "plain"))
    bring(lake, name, tmp_path / "plain")
    table = lake.load_table(name)
    time = table.bridge.get_statics("org.apache.iceberg.types.Types$TimeType").get()
    table.java.updateSchema().addColumn("t", time).commit()
    table.java.newAppend().commit()
    assert lake.diff(name, None).ops == [Op("c", "1", '{"id":1,"a":"x"}')]
    table.java.updateProperties().remove("schema.name-mapping.default").commit()
    with pytest.raises(
        FileUnreadable, match=r"schema.name-mapping.default.*/plain/part-\S+parquet"
    ):
        lake.diff(name, None)


def test_timestamps_that_iceberg_does_not_read_in_orc_are_the_tables_fault(
    lake: Lake, tmp_path: Path
) -> None:
    lake.session.sql("select 1 id, timestamp'2024-03-15' at").write.orc(str(tmp_path / "plain"))
    name = lake.create("id int, at timestamp")
    bring(lake, name, tmp_path / "plain", "orc")
    with pytest.raises(FileUnreadable, match=r"ORC.*rewrite the file.*/plain/part-\S+orc"):
        lake.diff(name, None)


def test_a_default_that_iceberg_does_not_read_from_orc_is_left_out_or_the_tables_fault(
    lake: Lake,
) -> None:
    name = lake.create("id int", version=3, properties=", 'write.format.default'='orc'")
    lake.sql(f"insert into lake.{name} values (1)")
    table = lake.load_table(name)
    text = table.bridge.get_statics("org.apache.iceberg.types.Types$StringType").get()
    default = table.bridge.get_statics("org.apache.iceberg.expressions.Literal").of("x")
    table.java.updateSchema().addColumn("d", text, default).commit()
    lake.sql(f"insert into lake.{name} values (2, 'y')")
    with pytest.raises(FileUnreadable, match=r"default value from ORC.*`columns`"):
        lake.export(name)
    (exported,) = lake.export(name, columns=("id",))
    assert [op.doc for op in exported.ops] == ['{"id":1}', '{"id":2}']
