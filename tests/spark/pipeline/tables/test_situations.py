"""What happens to an index when its table goes through what tables go through.

Each scenario is one table; all of them are followed by one pipeline that rebuilds where it must.
"""

from collections.abc import Callable

import pytest

from icdc_testing.tables.acts import (
    COMPACT,
    EXPIRE,
    FILL,
    FILLED,
    FOUR,
    INSERT_FOUR,
    check_points_to,
    has_field,
    set_snapshot,
)
from icdc_testing.tables.playing import Stages, assert_played
from icdc_testing.tables.scenarios import (
    COW2,
    EVERY_FORMAT,
    MOR2,
    MOR3,
    Scenario,
    ScenarioStep,
    put,
    remove,
)

pytestmark = pytest.mark.spark

FIRST = ScenarioStep(do=[FILL], writes=FILLED)

SCENARIOS = [
    Scenario(
        name="empty",
        steps=[
            ScenarioStep(check=check_points_to(1)),
            ScenarioStep(),
            ScenarioStep(do=[FILL], writes=FILLED),
            ScenarioStep(do=["delete from {t}"], writes=[remove("1"), remove("2"), remove("3")]),
        ],
    ),
    *(
        Scenario(
            name="rollback",
            format=table_format,
            steps=[
                FIRST,
                ScenarioStep(
                    do=[INSERT_FOUR, "update {t} set name = 'x' where id = 2"],
                    writes=[FOUR, put("2", id=2, name="x", age=2)],
                ),
                ScenarioStep(do=[set_snapshot(0)], writes=[remove("4"), FILLED[1]]),
                # ... and forward again, to a snapshot that is no descendant
                ScenarioStep(do=[set_snapshot(1)], writes=[FOUR]),
            ],
        )
        for table_format in (COW2, MOR3)
    ),
    *(
        Scenario(
            name="compaction",
            format=table_format,
            steps=[
                ScenarioStep(
                    do=[FILL, "delete from {t} where id = 2"], writes=[FILLED[0], FILLED[2]]
                ),
                ScenarioStep(do=[COMPACT, "call {c}.system.rewrite_manifests('{n}')"]),
                ScenarioStep(
                    do=[INSERT_FOUR, COMPACT, "update {t} set age = 9 where id = 1", COMPACT],
                    writes=[FOUR, put("1", id=1, name="a", age=9)],
                ),
                ScenarioStep(do=[EXPIRE]),
            ],
        )
        for table_format in EVERY_FORMAT
    ),
    *(
        Scenario(
            name="keys",
            format=table_format,
            steps=[
                FIRST,
                ScenarioStep(
                    do=["update {t} set id = 9 where id = 1"],
                    writes=[remove("1"), put("9", id=9, name="a", age=1)],
                ),
                # There and back between two runs is no change at all.
                ScenarioStep(
                    do=["delete from {t} where id = 2", "insert into {t} values (2,'b',2)"],
                    writes=[FILLED[1]] if table_format is not COW2 else [],
                ),
            ],
        )
        for table_format in (COW2, MOR2)
    ),
    *(
        Scenario(
            name="added_column",
            format=table_format,
            steps=[
                FIRST,
                ScenarioStep(
                    do=[
                        "alter table {t} add column note string",
                        "insert into {t} values (4,'d',4,'new')",
                    ],
                    writes=[put("4", id=4, name="d", age=4, note="new")],
                    check=has_field("note", "keyword"),
                ),
                # Rewritten under the new schema, the other rows stay what they were.
                ScenarioStep(
                    do=["update {t} set note = 'x' where id = 1", COMPACT],
                    writes=[put("1", id=1, name="a", age=1, note="x")],
                ),
                ScenarioStep(
                    do=[
                        "alter table {t} alter column age type bigint",
                        "delete from {t} where id = 2",
                    ],
                    writes=[remove("2")],
                ),
            ],
        )
        for table_format in (COW2, MOR3)
    ),
    Scenario(
        name="evolution",
        partitioned="id",
        steps=[
            FIRST,
            ScenarioStep(
                do=[
                    "alter table {t} drop partition field id",
                    "alter table {t} add partition field bucket(4, name)",
                    "update {t} set age = 9 where id = 1",
                ],
                writes=[put("1", id=1, name="a", age=9)],
            ),
            ScenarioStep(
                do=[
                    "alter table {t} set tblproperties ('format-version' = '3')",
                    "update {t} set age = 1 where id = 1",
                ],
                writes=[FILLED[0]],
            ),
        ],
    ),
]


@pytest.fixture(scope="module")
def stages(play: Callable[..., Stages]) -> Stages:
    return play(SCENARIOS)


@pytest.mark.parametrize("alias", [scenario.alias for scenario in SCENARIOS])
def test_the_index_follows_with_exactly_the_writes_that_are_due(stages: Stages, alias: str) -> None:
    assert_played(stages[alias])
