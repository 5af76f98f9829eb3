"""When exports may write: every day from one time to another, in UTC."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pydantic import ValidationError

from icdc_api.spec.export_window import ExportWindow
from icdc_api.spec.sink import SinkLimits

pytestmark = pytest.mark.unit


def make_moment(day: int, time: str) -> datetime:
    hour, minute, second = map(int, time.split(":"))
    return datetime(2026, 3, day, hour, minute, second, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "now", "opening"),
    [
        ("22:00-06:00", make_moment(1, "23:15:00"), None),
        ("22:00-06:00", make_moment(1, "00:00:00"), None),
        ("22:00-06:00", make_moment(1, "05:59:59"), None),
        ("22:00-06:00", make_moment(1, "06:00:00"), make_moment(1, "22:00:00")),
        ("22:00-06:00", make_moment(1, "21:59:59"), make_moment(1, "22:00:00")),
        ("22:00-06:00", make_moment(1, "22:00:00"), None),
        ("01:30-04:00", make_moment(1, "01:29:59"), make_moment(1, "01:30:00")),
        ("01:30-04:00", make_moment(1, "03:59:59"), None),
        ("01:30-04:00", make_moment(1, "04:00:00"), make_moment(2, "01:30:00")),
        ("00:00-12:00", make_moment(31, "12:00:00"), datetime(2026, 4, 1, tzinfo=UTC)),
        ("12:00-00:00", make_moment(1, "23:59:59"), None),
        ("12:00-00:00", make_moment(1, "00:00:00"), make_moment(1, "12:00:00")),
        # A day on which clocks are put forward in half of the world.
        ("22:00-06:00", make_moment(29, "06:00:00"), make_moment(29, "22:00:00")),
    ],
)
def test_the_window_opens_at_its_start_and_closes_at_its_end(
    text: str, now: datetime, opening: datetime | None
) -> None:
    window = ExportWindow(text)
    # In whatever zone a time is given, and so on any host.
    for moment in (now, now.astimezone(timezone(timedelta(hours=-9, minutes=-30)))):
        assert window.is_open(moment) == (opening is None)
        assert window.find_opening(moment) == (opening or now)
    assert window.is_open(window.find_opening(now))


@pytest.mark.parametrize("text", ["22:00", "22-06", "24:00-06:00", "22:60-06:00", "22:00-22:00"])
def test_another_text_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValidationError, match="HH:MM-HH:MM in UTC with two different times"):
        SinkLimits.model_validate({"exportWindow": text})
    assert SinkLimits.model_validate({"exportWindow": ""}).export_window == ""
