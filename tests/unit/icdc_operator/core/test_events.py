"""What people are told of a change between two statuses."""

from datetime import timedelta

import pytest

from icdc_api.status.pipeline_status import PipelineStatus, TableState
from icdc_operator.core.events import Event, derive_events
from icdc_testing.deciding.pipelines import NOW, caught_up

pytestmark = pytest.mark.unit

TOLD = Event(
    "AliasMoved",
    "shop.orders: somebody moved or removed the alias shop.orders; it is restored",
    warning=True,
)


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        (None, None, []),
        (None, NOW, [TOLD]),
        (NOW, NOW, []),
        (NOW, NOW + timedelta(hours=1), [TOLD]),
        (NOW, None, []),
    ],
)
def test_an_alias_that_was_put_back_is_told_once(
    before: object, after: object, events: list[Event]
) -> None:
    was, now = (
        PipelineStatus(tables=(caught_up(state=TableState.STREAMING, alias_restored_at=at),))
        for at in (before, after)
    )
    assert derive_events(was, now) == events
