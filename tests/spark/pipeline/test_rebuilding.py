"""When an index can no longer be brought up to date it is built anew beside the old one.

The alias moves when the new index is complete; one older index is kept.
"""

from collections.abc import Callable

import pytest

from icdc_testing.tables.acts import (
    EXPIRE,
    FILL,
    FILLED,
    FOUR,
    INSERT_FOUR,
    index_deleted,
    points_to,
    recreated,
    without_tags,
)
from icdc_testing.tables.playing import Told, assert_told
from icdc_testing.tables.scenarios import Step, Story, gone, put, rows

pytestmark = pytest.mark.spark

FIRST = Step(do=[FILL], writes=FILLED)

STORIES = [
    Story(
        name="dropped_column",
        steps=[
            FIRST,
            Step(
                do=["alter table {t} drop column age", "insert into {t} values (4,'d')"],
                writes=[
                    *(put(str(n), id=n, name="abc"[n - 1]) for n in (1, 2, 3)),
                    put("4", id=4, name="d"),
                ],
                into=2,
                check=points_to(2, kept=(1,)),
            ),
        ],
    ),
    Story(
        name="renamed_column",
        steps=[
            FIRST,
            Step(
                do=["alter table {t} rename column age to years", "delete from {t} where id > 1"],
                writes=[put("1", id=1, name="a", years=1)],
                into=2,
                check=points_to(2, kept=(1,)),
            ),
            # The third index leaves one older one.
            Step(
                do=[
                    "alter table {t} rename column years to age",
                    "insert into {t} values (2,'b',2)",
                ],
                writes=FILLED[:2],
                into=3,
                check=points_to(3, kept=(2,)),
            ),
        ],
    ),
    Story(
        name="expired",
        steps=[
            FIRST,
            Step(
                do=[INSERT_FOUR, without_tags, EXPIRE],
                writes=[*FILLED, FOUR],
                into=2,
                check=points_to(2, kept=(1,)),
            ),
            # The tag keeps what was applied: the same expiry does no harm.
            Step(
                do=["delete from {t} where id = 1", EXPIRE],
                writes=[gone("1")],
                into=2,
            ),
        ],
    ),
    Story(
        name="recreated",
        steps=[FIRST, Step(do=[recreated, INSERT_FOUR], writes=[FOUR], into=2)],
    ),
    Story(
        name="replaced",
        steps=[
            FIRST,
            Step(
                do=[
                    "create or replace table {t} using iceberg as "
                    + rows("(1,'a',1), (2,'x',2), (4,'d',4) as v(id, name, age)")
                ],
                writes=[put("2", id=2, name="x", age=2), gone("3"), FOUR],
            ),
        ],
    ),
    Story(
        name="deleted_index",
        steps=[
            FIRST,
            # Under a new number: a late write for the old one finds no index.
            Step(do=[index_deleted], writes=FILLED, into=2),
            Step(do=[INSERT_FOUR], writes=[FOUR], into=2),
        ],
    ),
]


@pytest.fixture(scope="module")
def told(teller: Callable[..., Told]) -> Told:
    return teller(STORIES)


@pytest.mark.parametrize("alias", [story.alias for story in STORIES])
def test_the_index_is_built_anew_and_then_followed(told: Told, alias: str) -> None:
    assert_told(told[alias])
