"""The largest statuses fit beside the largest specs, and what is cut is cut last where it helps."""

import pytest

from icdc_api.base import MAX_TABLES
from icdc_api.crd.loading import parse_pipeline
from icdc_api.json_size import measure_sent
from icdc_api.naming import MAX_INDEX_BYTES
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_operator.core.decide import decide
from icdc_operator.core.limits import status_size
from icdc_operator.core.observed import Observed
from icdc_testing.operator.deciding.worst_cases import (
    NOW,
    make_full_status,
    make_full_table,
    make_long_name,
    make_longest_names,
)

pytestmark = pytest.mark.unit

NAMES = [(make_long_name(n), make_long_name(n, MAX_INDEX_BYTES)) for n in range(MAX_TABLES)]
SPEC = parse_pipeline(make_longest_names(), source="shop").spec


def make_largest(text: str = "m") -> PipelineStatus:
    """Return the largest status of SPEC."""
    return make_full_status(make_full_table(name, index, text) for name, index in NAMES)


def measure_texts(status: PipelineStatus) -> set[int]:
    """Return the lengths of all messages of tables."""
    messages = (
        text or "" for table in status.tables for text in (table.message, table.pin_message)
    )
    return set(map(len, messages))


def count_samples(status: PipelineStatus) -> int:
    """Return the number of sample ids of all tables."""
    parts = (part for table in status.tables for part in (table.duplicates, table.verification))
    return sum(len(part.samples) for part in parts if part is not None)


def measure_status(status: PipelineStatus) -> int:
    return measure_sent(status.to_resource())


@pytest.mark.parametrize("character", ["m", "\u00e4", "\U0001f40b", "\x01", "<"])
def test_the_least_room_is_enough_for_every_table_whatever_is_said_of_it(character: str) -> None:
    status = make_largest(character)
    least = status_size.compute_least_bytes(SPEC)
    fitted = status_size.fit(status, least)
    assert measure_status(fitted) <= least < measure_status(status)
    assert [table.name for table in fitted.tables] == [name for name, _ in NAMES]
    # Counts, snapshots and reasons are never cut.
    before, after = status.tables[-1], fitted.tables[-1]
    assert (after.reason, after.rows_upserted, after.export) == (
        before.reason,
        before.rows_upserted,
        before.export,
    )
    assert after.verification is not None
    assert before.verification is not None
    assert after.verification.missing == before.verification.missing


def test_texts_are_cut_no_more_than_it_takes_and_before_samples() -> None:
    status = make_largest()
    seen = []
    room = measure_status(status)
    for _ in range(6):
        fitted = status_size.fit(status, room)
        assert measure_status(fitted) <= room
        assert status_size.fit(fitted, room) is fitted
        cost = fitted.tables[-1].last_batch is not None
        seen.append((measure_texts(fitted), cost, count_samples(fitted) > 0, len(fitted.tables)))
        room = measure_status(fitted) - 1
    assert seen == [
        ({1024}, True, True, MAX_TABLES),
        ({1024}, False, True, MAX_TABLES),
        ({256}, False, True, MAX_TABLES),
        ({64}, False, True, MAX_TABLES),
        ({64}, False, False, MAX_TABLES),
        ({0}, False, False, MAX_TABLES),
    ]
    assert status_size.fit(status, room).tables == ()


def test_a_status_is_not_cut_where_nothing_limits_it() -> None:
    status = make_largest()
    assert status_size.fit(status, None) is status
    assert status_size.fit(status, measure_status(status)) is status


def test_a_decision_fits_and_a_second_one_changes_nothing() -> None:
    status = PipelineStatus(observed_generation=1, tables=make_largest().tables)
    room = status_size.compute_least_bytes(SPEC)
    first = decide(Observed("default", "shop", 1, SPEC, status, status_room=room), NOW).status
    assert measure_status(first) <= room
    assert len(first.tables) == MAX_TABLES
    again = decide(Observed("default", "shop", 1, SPEC, first, status_room=room), NOW).status
    assert again.tables == first.tables
