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
    check_points_to,
    delete_index,
    recreate_table,
    remove_tags,
)
from icdc_testing.tables.playing import Stages, assert_played
from icdc_testing.tables.scenarios import Scenario, ScenarioStep, put, remove, select_rows

pytestmark = pytest.mark.spark

FIRST = ScenarioStep(do=[FILL], writes=FILLED)

SCENARIOS = [
    Scenario(
        name="dropped_column",
        steps=[
            FIRST,
            ScenarioStep(
                do=["alter table {t} drop column age", "insert into {t} values (4,'d')"],
                writes=[
                    *(put(str(n), id=n, name="abc"[n - 1]) for n in (1, 2, 3)),
                    put("4", id=4, name="d"),
                ],
                into=2,
                check=check_points_to(2, retained=(1,)),
            ),
        ],
    ),
    Scenario(
        name="renamed_column",
        steps=[
            FIRST,
            ScenarioStep(
                do=["alter table {t} rename column age to years", "delete from {t} where id > 1"],
                writes=[put("1", id=1, name="a", years=1)],
                into=2,
                check=check_points_to(2, retained=(1,)),
            ),
            # The third index leaves one older one.
            ScenarioStep(
                do=[
                    "alter table {t} rename column years to age",
                    "insert into {t} values (2,'b',2)",
                ],
                writes=FILLED[:2],
                into=3,
                check=check_points_to(3, retained=(2,)),
            ),
        ],
    ),
    Scenario(
        name="expired",
        steps=[
            FIRST,
            ScenarioStep(
                do=[INSERT_FOUR, remove_tags, EXPIRE],
                writes=[*FILLED, FOUR],
                into=2,
                check=check_points_to(2, retained=(1,)),
            ),
            # The tag keeps what was applied: the same expiry does no harm.
            ScenarioStep(
                do=["delete from {t} where id = 1", EXPIRE],
                writes=[remove("1")],
                into=2,
            ),
        ],
    ),
    Scenario(
        name="recreated",
        steps=[FIRST, ScenarioStep(do=[recreate_table, INSERT_FOUR], writes=[FOUR], into=2)],
    ),
    Scenario(
        name="replaced",
        steps=[
            FIRST,
            ScenarioStep(
                do=[
                    "create or replace table {t} using iceberg as "
                    + select_rows("(1,'a',1), (2,'x',2), (4,'d',4) as v(id, name, age)")
                ],
                writes=[put("2", id=2, name="x", age=2), remove("3"), FOUR],
            ),
        ],
    ),
    Scenario(
        name="deleted_index",
        steps=[
            FIRST,
            # Under a new number: a late write for the old one finds no index.
            ScenarioStep(do=[delete_index], writes=FILLED, into=2),
            ScenarioStep(do=[INSERT_FOUR], writes=[FOUR], into=2),
        ],
    ),
]


@pytest.fixture(scope="module")
def stages(play: Callable[..., Stages]) -> Stages:
    return play(SCENARIOS)


@pytest.mark.parametrize("alias", [scenario.alias for scenario in SCENARIOS])
def test_the_index_is_built_anew_and_then_followed(stages: Stages, alias: str) -> None:
    assert_played(stages[alias])
