"""Keys that are whole numbers, compared by bitmaps, and by key where bits are not enough."""

import random
from collections.abc import Iterable
from typing import Any

import pytest

from icdc_spark.diff import key_bitmaps
from icdc_spark.diff.strategies import Strategy
from icdc_testing.lake.lake import BatchOperations, Lake
from icdc_testing.lake.lineage import (
    LEFT,
    NOT_TRIED,
    SHOWN,
    compute_by_lineage,
    create_filled,
    put_back,
)

pytestmark = pytest.mark.spark

FAR = 1 << 63


def compute_by_keys(lake: Lake, name: str, since: int, **wishes: Any) -> BatchOperations:
    """Return the batch as computed without bitmaps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_bitmaps, "can_compare_keys", lambda *_: False)
        return compute_by_lineage(lake, name, since, **wishes)


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
    lake: Lake, bitmap_trials: list[bool], kind: str, first: int
) -> None:
    # Words end among them, and some words are full.
    had = [first + at for at in range(196) if at < 140 or at % 5 == 0]
    updated, deleted = had[0::9], had[4::9]
    created = [first + at for at in range(150, 200) if at % 5 == 3]
    name, since = create_filled(lake, f"id {kind}, v string", (f"({key}, 'a')" for key in had))
    lake.sql(f"update lake.{name} set v = 'b' where id in {join_keys(updated)}")
    lake.sql(f"delete from lake.{name} where id in {join_keys(deleted)}")
    lake.sql(f"insert into lake.{name} values {', '.join(f'({key}, null)' for key in created)}")

    batch = compute_by_lineage(lake, name, since)

    assert bitmap_trials == SHOWN
    expected = {
        *(("u", str(key)) for key in updated),
        *(("d", str(key)) for key in deleted),
        *(("c", str(key)) for key in created),
    }
    assert sorted(batch.short) == sorted(expected)
    assert batch.counts.duplicate_keys == 0
    assert batch.ops == lake.diff(name, since, strategy=Strategy.TWO_READS).ops


KEYS = [f"({key}, 'a')" for key in range(1, 9)]
TWICE = [*KEYS, "(3, 'b')"]
DEAD = "where id = 3 and v = 'b'"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("rows", "statements", "trials"),
    [
        pytest.param(KEYS, ["delete from {t} where id > 0"], NOT_TRIED, id="nothing is left"),
        pytest.param(KEYS, ["delete from {t} where id < 4"], SHOWN, id="only deletes"),
        pytest.param(KEYS, ["update {t} set v = 'z'"], SHOWN, id="all are updated"),
        pytest.param(KEYS, ["insert overwrite {t} values (9, 'z')"], SHOWN, id="others instead"),
        pytest.param(KEYS, ["update {t} set id = 20 where id = 3"], SHOWN, id="a key changes"),
        pytest.param(
            KEYS,
            ["update {t} set v = 'b' where id = 3", "update {t} set v = 'c' where id < 5"],
            SHOWN,
            id="several commits",
        ),
        pytest.param(TWICE, ["update {t} set v = 'z' where id = 5"], LEFT, id="carried over twice"),
        pytest.param(TWICE, ["update {t} set v = 'z' where id = 3"], LEFT, id="written twice"),
        pytest.param(TWICE, [f"update {{t}} set v = 'z' {DEAD}"], LEFT, id="one of two is written"),
        pytest.param(TWICE, [f"delete from {{t}} {DEAD}"], LEFT, id="one of two is deleted"),
        pytest.param(TWICE, ["delete from {t} where id = 3"], SHOWN, id="both are deleted"),
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
            SHOWN,
            id="a key that is null",
        ),
        pytest.param(
            [*KEYS, "(null, 'n')"],
            ["delete from {t} where id is null"],
            SHOWN,
            id="null is deleted",
        ),
        pytest.param(
            [*KEYS, "(null, 'n')", "(0, 'z')"],
            ["update {t} set v = 'z' where id is null", "delete from {t} where id = 0"],
            SHOWN,
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
@pytest.mark.usefixtures("whole_stage_codegen")
def test_what_bits_cannot_tell_is_left_to_others(
    lake: Lake,
    bitmap_trials: list[bool],
    rows: list[str],
    statements: list[str],
    trials: list[bool],
) -> None:
    name, since = create_filled(lake, "id int, v string", rows)
    for statement in statements:
        lake.sql(statement.format(t=f"lake.{name}"))

    batch = compute_by_lineage(lake, name, since)

    assert bitmap_trials == trials
    assert batch == compute_by_keys(lake, name, since)
    assert batch.ops, "the batch is empty"


@pytest.mark.usefixtures("whole_stage_codegen")
def test_whatever_is_committed_bits_tell_what_keys_tell(
    lake: Lake, bitmap_trials: list[bool], rng: random.Random
) -> None:
    keys = [str(key) for key in range(-100, 150)]
    name, _ = create_filled(lake, "id int, v string", [f"({key}, '')" for key in ["null", *keys]])
    heads = [lake.read_head(name)]
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
        heads.append(lake.read_head(name))
        since = rng.choice(heads[:-1])
        batch = compute_by_lineage(lake, name, since)
        assert batch == compute_by_keys(lake, name, since), (
            f"commit {number} since {heads.index(since)}"
        )
        assert batch.ops
    assert set(bitmap_trials) == {True}


@pytest.mark.usefixtures("whole_stage_codegen")
def test_of_several_numbers_the_last_has_bits(lake: Lake, bitmap_trials: list[bool]) -> None:
    keys = [(tenant, key) for tenant in (-1, 0, 7) for key in range(60, 70)]
    rows = [f"({tenant}, {key}, 'a')" for tenant, key in keys]
    rows += ["(0, null, 'a')", "(7, null, 'a')"]
    name, since = create_filled(lake, "tenant int, id bigint, v string", rows)
    lake.sql(f"update lake.{name} set v = 'b' where tenant = 0 and (id = 64 or id is null)")
    lake.sql(f"delete from lake.{name} where tenant = 7 and (id = 64 or id is null)")
    lake.sql(f"insert into lake.{name} values (-1, 59, 'c')")

    batch = compute_by_lineage(lake, name, since, identifier_columns=("tenant", "id"))

    assert bitmap_trials == SHOWN
    assert [expect for expect, _ in batch.short] == ["c", "d", "d", "u", "u"]
    assert batch == compute_by_keys(lake, name, since, identifier_columns=("tenant", "id"))


def test_rows_of_another_age_are_not_taken_for_carried_over(
    lake: Lake, bitmap_trials: list[bool]
) -> None:
    name, _ = create_filled(lake, "id int, v string", KEYS)
    lake.sql(f"update lake.{name} set v = 'b' where id = 3")
    lake.sql(f"update lake.{name} set v = 'b' where id = 1")  # in whose file the other has an age
    past = lake.read_head(name)
    lake.sql(f"update lake.{name} set v = 'c' where id = 3")
    since = lake.read_head(name)
    put_back(lake, name, past)

    batch = compute_by_lineage(lake, name, since)

    assert bitmap_trials == LEFT
    assert [op.doc for op in batch.ops if op.id == "3"] == ['{"id":3,"v":"b"}']


def test_rows_that_a_filter_leaves_out_are_in_no_bitmap(
    lake: Lake, bitmap_trials: list[bool]
) -> None:
    name, since = create_filled(lake, "id int, v string", KEYS)
    lake.sql(f"update lake.{name} set v = 'b' where id in (2, 3)")
    lake.sql(f"delete from lake.{name} where id = 7")

    assert compute_by_lineage(lake, name, since, row_filter="v = 'a'").short == [
        *[("d", "2"), ("d", "3"), ("d", "7")],
    ]
    assert compute_by_lineage(lake, name, since, row_filter="v = 'b'").short == [
        ("c", "2"),
        ("c", "3"),
    ]
    assert compute_by_lineage(lake, name, since, row_filter="v = 'c'").short == []
    assert bitmap_trials == 3 * SHOWN


def join_keys(keys: Iterable[int]) -> str:
    return f"({', '.join(map(str, keys))})"
