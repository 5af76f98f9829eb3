"""The strategy of a plan follows from its counts, and from what its rows say of themselves."""

import pytest

from icdc_spark.diff.change_plan import ChangePlan
from icdc_spark.diff.strategies import FEW_ROWS, ONE_READ_BYTES, Strategy, choose_strategy
from icdc_spark.iceberg.scan.planning import FileGroup

pytestmark = pytest.mark.unit

SMALL, LARGE = ONE_READ_BYTES, ONE_READ_BYTES + 1


def make_group(size: int, records: int = 1) -> FileGroup:
    """Return a group of one file of this size, or of none for 0 bytes."""
    return FileGroup(tasks=None, files=1 if size else 0, records=records, bytes=size)


def make_plan(
    *,
    added: int = 0,
    removed: int = 0,
    before: int = 0,
    after: int = 0,
    deleted: int = 0,
    since: int | None = None,
    records: int = 1,
) -> ChangePlan:
    """Return a plan whose groups have these bytes, and files of `records` rows."""
    return ChangePlan(
        from_id=1,
        to_id=2,
        added=make_group(added, records),
        removed=make_group(removed, records),
        shared_before=make_group(before, records),
        shared_after=make_group(after, records),
        deleted_keys=make_group(deleted, records),
        lineage_since=since,
    )


@pytest.mark.parametrize(
    ("planned", "expected"),
    [
        (make_plan(added=LARGE), Strategy.APPEND),
        (make_plan(added=LARGE, since=7), Strategy.APPEND),
        (make_plan(added=LARGE, deleted=1), Strategy.STREAM),
        (make_plan(deleted=1), Strategy.ONE_READ),
        (make_plan(added=SMALL, removed=1), Strategy.ONE_READ),
        (make_plan(added=LARGE, removed=1), Strategy.TWO_READS),
        (make_plan(added=LARGE, after=1), Strategy.STREAM),
        (make_plan(added=LARGE, removed=1, after=1), Strategy.TWO_READS),
        (make_plan(added=SMALL, removed=1, since=7), Strategy.ONE_READ),
        (make_plan(added=SMALL, removed=1, since=7, records=FEW_ROWS // 2), Strategy.ONE_READ),
        (make_plan(added=SMALL, removed=1, since=7, records=FEW_ROWS // 2 + 1), Strategy.LINEAGE),
        (make_plan(added=LARGE, removed=1, since=7), Strategy.LINEAGE),
        (make_plan(added=LARGE, after=1, since=0), Strategy.LINEAGE),
        (make_plan(before=1, since=7), Strategy.ONE_READ),
    ],
)
def test_the_cheapest_strategy_that_is_allowed_is_chosen(
    planned: ChangePlan, expected: Strategy
) -> None:
    assert choose_strategy(planned) is expected


def test_a_reader_that_cannot_ask_rows_gets_what_a_table_without_lineage_gets() -> None:
    many = make_plan(added=SMALL, removed=1, since=7, records=FEW_ROWS)
    assert choose_strategy(many, lineage=False) is Strategy.ONE_READ
    assert (
        choose_strategy(make_plan(added=LARGE, after=1, since=7), lineage=False) is Strategy.STREAM
    )
