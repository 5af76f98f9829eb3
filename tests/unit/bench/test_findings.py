"""When `make bench-verify` fails."""

from dataclasses import replace
from typing import Any

import pytest

from icdc_testing.bench.findings import IndexWrites, Judgement

pytestmark = pytest.mark.unit

NONE: dict[str, list[str]] = {"missing": [], "extra": [], "different": []}
FOUR = {"missing": ["5"], "extra": ["x"], "different": ["7", "9"]}
RIGHT = Judgement(
    damaged=FOUR,
    before=[NONE],
    during=[FOUR, {**FOUR, "different": ["9", "7"]}],
    after=NONE,
    repaired=4,
    written=IndexWrites(indexed=3, deleted=1),
)


def test_a_comparison_that_finds_exactly_the_damage_is_right() -> None:
    assert RIGHT.list_problems() == []


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"before": [{**NONE, "missing": ["1"]}]}, id="found something before"),
        pytest.param({"during": [FOUR, {**FOUR, "extra": []}]}, id="the repair missed one"),
        pytest.param({"during": [{**FOUR, "missing": ["5", "6"]}]}, id="found one too many"),
        pytest.param({"after": {**NONE, "different": ["7"]}}, id="one is left"),
        pytest.param({"repaired": 5}, id="counted one too many"),
        pytest.param({"written": IndexWrites(indexed=4, deleted=1)}, id="wrote one too many"),
        pytest.param({"written": IndexWrites(indexed=3, deleted=0)}, id="deleted nothing"),
    ],
)
def test_anything_else_is_a_problem(changes: dict[str, Any]) -> None:
    assert len(replace(RIGHT, **changes).list_problems()) == 1
