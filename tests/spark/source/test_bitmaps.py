"""Keys that are whole numbers in bitmaps: what bits tell, what they leave to others, and when they
are tried.
"""

import random
from collections.abc import Iterable
from typing import Any

import pytest

from icdc_spark.diff import bitmaps
from icdc_spark.diff.changes import Strategy
from icdc_spark.iceberg.bounds import spread
from icdc_spark.iceberg.planning import list_files
from icdc_spark.iceberg.tables import IcebergTable
from support_lake import COPY_ON_WRITE, MERGE_ON_READ, Batch, Lake

pytestmark = pytest.mark.spark

FAR = 1 << 63
TOLD, LEFT, NOT_TRIED = [True], [False], list[bool]()


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each batch in which bitmaps were tried whether they told what differs."""
    compare, told = bitmaps.compare, list[bool]()

    def noted(*arguments: Any, **more: Any) -> bitmaps.Compared | None:
        compared = compare(*arguments, **more)
        told.append(compared is not None)
        return compared

    monkeypatch.setattr(bitmaps, "compare", noted)
    return told


def filled(lake: Lake, columns: str, rows: Iterable[str], **wishes: Any) -> tuple[str, int]:
    """A table of format 3 with these rows in one file, and its snapshot."""
    name = lake.create(columns, version=3, **wishes)
    lake.sql(f"insert into lake.{name} select /*+ coalesce(1) */ * from values {', '.join(rows)}")
    return name, lake.head(name)


def by_lineage(lake: Lake, name: str, since: int, **wishes: Any) -> Batch:
    return lake.changes(name, since, strategy=Strategy.LINEAGE, **wishes)


def by_keys(lake: Lake, name: str, since: int, **wishes: Any) -> Batch:
    """The same without bitmaps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bitmaps, "suits", lambda *_: False)
        return by_lineage(lake, name, since, **wishes)


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("int", -90),
        ("int", (1 << 31) - 200),
        ("int", -(1 << 31)),
        ("bigint", -90),
        ("bigint", 1 << 40),
        ("bigint", FAR - 200),
        ("bigint", -FAR),
    ],
)
def test_bits_tell_what_became_of_keys_wherever_these_lie(
    lake: Lake, tried: list[bool], kind: str, first: int
) -> None:
    # Words end among them, and some words are full.
    had = [first + at for at in range(196) if at < 140 or at % 5 == 0]
    updated, deleted = had[0::9], had[4::9]
    created = [first + at for at in range(150, 200) if at % 5 == 3]
    name, since = filled(lake, f"id {kind}, v string", (f"({key}, 'a')" for key in had))
    lake.sql(f"update lake.{name} set v = 'b' where id in {listed(updated)}")
    lake.sql(f"delete from lake.{name} where id in {listed(deleted)}")
    lake.sql(f"insert into lake.{name} values {', '.join(f'({key}, null)' for key in created)}")

    batch = by_lineage(lake, name, since)

    assert tried == TOLD
    expected = {
        *(("u", str(key)) for key in updated),
        *(("d", str(key)) for key in deleted),
        *(("c", str(key)) for key in created),
    }
    assert sorted(batch.short) == sorted(expected)
    assert batch.counts.duplicate_keys == 0
    assert batch.ops == lake.changes(name, since, strategy=Strategy.TWO_READS).ops


KEYS = [f"({key}, 'a')" for key in range(1, 9)]
TWICE = [*KEYS, "(3, 'b')"]
DEAD = "where id = 3 and v = 'b'"


@pytest.mark.parametrize(
    ("rows", "statements", "told"),
    [
        pytest.param(KEYS, ["delete from {t} where id > 0"], NOT_TRIED, id="nothing is left"),
        pytest.param(KEYS, ["delete from {t} where id < 4"], TOLD, id="only deletes"),
        pytest.param(KEYS, ["update {t} set v = 'z'"], TOLD, id="all are updated"),
        pytest.param(KEYS, ["insert overwrite {t} values (9, 'z')"], TOLD, id="others instead"),
        pytest.param(KEYS, ["update {t} set id = 20 where id = 3"], TOLD, id="a key changes"),
        pytest.param(
            KEYS,
            ["update {t} set v = 'b' where id = 3", "update {t} set v = 'c' where id < 5"],
            TOLD,
            id="several commits",
        ),
        pytest.param(TWICE, ["update {t} set v = 'z' where id = 5"], LEFT, id="carried over twice"),
        pytest.param(TWICE, ["update {t} set v = 'z' where id = 3"], LEFT, id="written twice"),
        pytest.param(TWICE, [f"update {{t}} set v = 'z' {DEAD}"], LEFT, id="one of two is written"),
        pytest.param(TWICE, [f"delete from {{t}} {DEAD}"], LEFT, id="one of two is deleted"),
        pytest.param(TWICE, ["delete from {t} where id = 3"], TOLD, id="both are deleted"),
        pytest.param(
            [*TWICE, "(3, 'c')"],
            ["delete from {t} where id = 3 and v <> 'b'"],
            LEFT,
            id="two of three are deleted",
        ),
        pytest.param(
            KEYS,
            ["update {t} set v = 'z' where id = 5", "insert into {t} values (20, 'x'), (20, 'y')"],
            LEFT,
            id="a new key twice",
        ),
        pytest.param(
            [*KEYS, "(null, 'n')"],
            ["update {t} set v = 'z' where id = 5"],
            TOLD,
            id="a key that is null",
        ),
        pytest.param(
            [*KEYS, "(null, 'n')"], ["delete from {t} where id is null"], TOLD, id="null is deleted"
        ),
        pytest.param(
            [*KEYS, "(null, 'n')", "(0, 'z')"],
            ["update {t} set v = 'z' where id is null", "delete from {t} where id = 0"],
            TOLD,
            id="null is written",
        ),
        pytest.param(
            [*KEYS, "(null, 'n')", "(null, 'm')"],
            ["update {t} set v = 'z' where id = 5"],
            LEFT,
            id="null twice",
        ),
    ],
)
@pytest.mark.usefixtures("compiled")
def test_what_bits_cannot_tell_is_left_to_others(
    lake: Lake, tried: list[bool], rows: list[str], statements: list[str], told: list[bool]
) -> None:
    name, since = filled(lake, "id int, v string", rows)
    for statement in statements:
        lake.sql(statement.format(t=f"lake.{name}"))

    batch = by_lineage(lake, name, since)

    assert tried == told
    assert batch == by_keys(lake, name, since)
    assert batch.ops, "nothing was to be told"


@pytest.mark.usefixtures("compiled")
def test_whatever_is_committed_bits_tell_what_keys_tell(
    lake: Lake, tried: list[bool], rng: random.Random
) -> None:
    keys = [str(key) for key in range(-100, 150)]
    name, _ = filled(lake, "id int, v string", [f"({key}, '')" for key in ["null", *keys]])
    heads = [lake.head(name)]
    for number in range(8):
        some = rng.sample(range(-100, 170), 25)
        lake.sql(
            f"merge into lake.{name} t using (select explode(array({', '.join(map(str, some))})) k)"
            f" s on t.id = s.k when matched and k % 3 = 0 then delete "
            f"when matched then update set v = '{number}' "
            f"when not matched and k % 2 = 0 then insert (id, v) values (k, '{number}')"
        )
        if rng.random() < 0.2:
            lake.compact(name)
        heads.append(lake.head(name))
        since = rng.choice(heads[:-1])
        batch = by_lineage(lake, name, since)
        assert batch == by_keys(lake, name, since), f"commit {number} since {heads.index(since)}"
        assert batch.ops
    assert set(tried) == {True}


@pytest.mark.usefixtures("compiled")
def test_of_several_numbers_the_last_has_bits(lake: Lake, tried: list[bool]) -> None:
    keys = [(tenant, key) for tenant in (-1, 0, 7) for key in range(60, 70)]
    rows = [f"({tenant}, {key}, 'a')" for tenant, key in keys]
    rows += ["(0, null, 'a')", "(7, null, 'a')"]
    name, since = filled(lake, "tenant int, id bigint, v string", rows)
    lake.sql(f"update lake.{name} set v = 'b' where tenant = 0 and (id = 64 or id is null)")
    lake.sql(f"delete from lake.{name} where tenant = 7 and (id = 64 or id is null)")
    lake.sql(f"insert into lake.{name} values (-1, 59, 'c')")

    batch = by_lineage(lake, name, since, identifier_columns=("tenant", "id"))

    assert tried == TOLD
    assert [expect for expect, _ in batch.short] == ["c", "d", "d", "u", "u"]
    assert batch == by_keys(lake, name, since, identifier_columns=("tenant", "id"))


def test_rows_of_another_age_are_not_taken_for_carried_over(lake: Lake, tried: list[bool]) -> None:
    name, _ = filled(lake, "id int, v string", KEYS)
    lake.sql(f"update lake.{name} set v = 'b' where id = 3")
    lake.sql(f"update lake.{name} set v = 'b' where id = 1")  # in whose file the other has an age
    past = lake.head(name)
    lake.sql(f"update lake.{name} set v = 'c' where id = 3")
    since, table = lake.head(name), lake.table(name)
    (old,), (new,) = (data_files(table, at) for at in (past, since))
    table.java.newOverwrite().deleteFile(new).addFile(old).commit()

    batch = by_lineage(lake, name, since)

    assert tried == LEFT
    assert [op.doc for op in batch.ops if op.id == "3"] == ['{"id":3,"v":"b"}']


@pytest.mark.parametrize(
    ("columns", "keys", "mode", "properties", "wishes"),
    [
        pytest.param("id string, v string", range(8), COPY_ON_WRITE, "", {}, id="texts"),
        pytest.param("id date, v string", range(8), COPY_ON_WRITE, "", {}, id="dates"),
        pytest.param("id int, v string", range(0, 90, 9), COPY_ON_WRITE, "", {}, id="far apart"),
        pytest.param("id int, v string", range(8), MERGE_ON_READ, "", {}, id="deleted in place"),
        pytest.param(
            "id int, v string",
            range(8),
            COPY_ON_WRITE,
            ", 'write.metadata.metrics.default'='none'",
            {},
            id="no bounds",
        ),
        pytest.param(
            "id int, v string",
            range(8),
            COPY_ON_WRITE,
            "",
            {"identifier_columns": ("id", "v")},
            id="a number and a text",
        ),
    ],
)
def test_bits_are_not_tried_where_they_cannot_pay(
    lake: Lake,
    tried: list[bool],
    columns: str,
    keys: Iterable[int],
    mode: str,
    properties: str,
    wishes: dict[str, Any],
) -> None:
    shown = "date_from_unix_date({})" if "date" in columns else "{}"
    rows = (f"({shown.format(key)}, 'a')" for key in keys)
    name, since = filled(lake, columns, rows, mode=mode, properties=properties)
    lake.sql(f"update lake.{name} set v = 'b' where id <= {shown.format(1)}")

    batch = by_lineage(lake, name, since, **wishes)

    assert tried == NOT_TRIED
    assert batch.ops


def test_bits_are_not_tried_where_other_rows_were_deleted_in_place(
    lake: Lake, tried: list[bool]
) -> None:
    name, _ = filled(lake, "id int, v string", KEYS, mode=MERGE_ON_READ)
    others = "select id, 'a' from values (11), (12), (13), (14) as t(id)"
    lake.sql(f"insert into lake.{name} select /*+ coalesce(1) */ * from ({others})")
    since = lake.head(name)
    lake.sql(f"delete from lake.{name} where id = 3")
    lake.sql(f"alter table lake.{name} set tblproperties('write.update.mode'='{COPY_ON_WRITE}')")
    lake.sql(f"update lake.{name} set v = 'b' where id = 12")

    assert by_lineage(lake, name, since).short == [("d", "3"), ("u", "12")]
    assert tried == NOT_TRIED


def test_more_words_than_metadata_promised_are_left_to_others(
    lake: Lake, tried: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, since = filled(lake, "id int, v string", (f"({key}, 'a')" for key in range(0, 640, 10)))
    lake.sql(f"update lake.{name} set v = 'b' where id > 300")
    monkeypatch.setattr(bitmaps, "suits", lambda *_: True)
    monkeypatch.setattr(bitmaps, "MOST_WORDS", 9)

    batch = by_lineage(lake, name, since)
    assert tried == LEFT
    monkeypatch.setattr(bitmaps, "MOST_WORDS", 10)
    assert by_lineage(lake, name, since) == batch
    assert tried == [*LEFT, *TOLD]


def test_rows_that_a_filter_leaves_out_are_in_no_bitmap(lake: Lake, tried: list[bool]) -> None:
    name, since = filled(lake, "id int, v string", KEYS)
    lake.sql(f"update lake.{name} set v = 'b' where id in (2, 3)")
    lake.sql(f"delete from lake.{name} where id = 7")

    assert by_lineage(lake, name, since, row_filter="v = 'a'").short == [
        *[("d", "2"), ("d", "3"), ("d", "7")],
    ]
    assert by_lineage(lake, name, since, row_filter="v = 'b'").short == [("c", "2"), ("c", "3")]
    assert by_lineage(lake, name, since, row_filter="v = 'c'").short == []
    assert tried == 3 * TOLD


def test_the_spread_of_keys_is_told_by_a_few_files(lake: Lake) -> None:
    name = lake.create("n bigint, id int, t string", version=3)
    for first in range(0, 100, 10):
        keys = f"select id, int(id), string(id) from range({first}, {first + 10}, 3)"
        lake.sql(f"insert into lake.{name} select /*+ coalesce(1) */ * from ({keys})")
    lake.sql(f"call lake.system.rewrite_manifests('{name}')")
    lake.sql(f"alter table lake.{name} alter column id type bigint")
    lake.sql(f"alter table lake.{name} add column later bigint")
    table, head = lake.table(name), lake.head(name)
    group = list_files(table, head).group(list_files(table, head).files)

    assert group.files == 10
    # From the first to the last of four keys each.
    assert spread(table, head, group, [1]) == 100
    assert spread(table, head, group, [2]) == 100
    assert spread(table, head, group, [1, 2]) == 1_000
    assert spread(table, head, group, [4]) is None
    assert spread(table, head, list_files(table, None).group(()), [1]) is None


def listed(keys: Iterable[int]) -> str:
    return f"({', '.join(map(str, keys))})"


def data_files(table: IcebergTable, snapshot_id: int) -> list[Any]:
    """The Java data files of a snapshot, with all that metadata say of their columns."""
    scan = table.java.newScan().useSnapshot(snapshot_id).includeColumnStats()
    return [task.file() for task in table.bridge.each(table.bridge.drain(scan.planFiles()))]
