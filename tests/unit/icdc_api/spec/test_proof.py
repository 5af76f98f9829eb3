"""Durations of `spec.verify.every`."""

from datetime import timedelta

import pytest
from pydantic import ValidationError

from icdc_api.crd.explain import format_error
from icdc_api.spec.proof import RollingProof, parse_duration

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("every", "interval"),
    [
        ("24h", timedelta(hours=24)),
        ("30m", timedelta(minutes=30)),
        ("7d", timedelta(days=7)),
        ("10m", timedelta(minutes=10)),
        ("365d", timedelta(days=365)),
        ("", None),
        (None, None),
    ],
)
def test_a_duration_is_a_number_with_a_unit(every: str | None, interval: timedelta | None) -> None:
    assert RollingProof(every=every).interval == interval
    assert every is None or not every or parse_duration(every) == interval


@pytest.mark.parametrize("every", ["24", "1d12h", "-1h", "0h", "24 h", "1w", "9m", "366d", "24h\n"])
def test_any_other_is_refused_with_what_is_allowed(every: str) -> None:
    with pytest.raises(ValidationError) as raised:
        RollingProof(every=every)
    assert format_error(raised.value, source="shop.yaml") == (
        f"shop.yaml: every: {every!r} is not allowed: it must be a number with the unit m, h or d, "
        "from 10m to 365d, such as 24h; empty: never"
    )
