"""The parts of a table that a pipeline may choose: branch, rows, columns, or none for a time."""

from collections.abc import Callable

import pytest

from icdc_testing.tables.acts import FILL, FILLED, FOUR, INSERT_FOUR
from icdc_testing.tables.playing import Stages, assert_played
from icdc_testing.tables.scenarios import (
    COW2,
    MOR2,
    MOR3,
    Scenario,
    ScenarioStep,
    put,
    remove,
    select_rows,
)

pytestmark = pytest.mark.spark

FIRST = ScenarioStep(do=[FILL], writes=FILLED)

SCENARIOS = [
    Scenario(
        name="absent",
        steps=[
            FIRST,
            ScenarioStep(do=[INSERT_FOUR], absent=True),
            ScenarioStep(do=["delete from {t} where id = 1"], writes=[FOUR, remove("1")]),
        ],
    ),
    Scenario(
        name="branch",
        entry={"branch": "dev"},
        steps=[
            ScenarioStep(do=[FILL, "alter table {t} create branch dev"], writes=FILLED),
            ScenarioStep(do=[INSERT_FOUR]),
            ScenarioStep(
                do=["insert into {t}.branch_dev values (5,'e',5)"],
                writes=[put("5", id=5, name="e", age=5)],
            ),
            # Another branch is another snapshot: the difference is applied.
            ScenarioStep(entry={"branch": "main"}, writes=[FOUR, remove("5")]),
        ],
    ),
    *(
        Scenario(
            name="filtered",
            format=table_format,
            entry={"rowFilter": "age < 10"},
            where="age < 10",
            steps=[
                ScenarioStep(
                    do=[
                        "insert into {t} "
                        + select_rows("(1,'a',1), (2,'b',20), (3,'c',3), (4,'d',null)")
                    ],
                    writes=[FILLED[0], FILLED[2]],
                ),
                ScenarioStep(
                    do=["update {t} set age = case id when 1 then 10 else 2 end where id < 3"],
                    writes=[remove("1"), FILLED[1]],
                ),
                ScenarioStep(do=["delete from {t} where id = 1"], writes=[]),
            ],
        )
        for table_format in (COW2, MOR3)
    ),
    *(
        Scenario(
            name="projected",
            format=table_format,
            entry={"columns": ["name"]},
            projection=["name"],
            steps=[
                ScenarioStep(do=[FILL], writes=[put(str(n), name="abc"[n - 1]) for n in (1, 2, 3)]),
                ScenarioStep(
                    do=["update {t} set age = 9 where id = 1"],
                    writes=[] if table_format is COW2 else [put("1", name="a")],
                ),
                ScenarioStep(
                    do=["update {t} set name = 'x' where id = 1"], writes=[put("1", name="x")]
                ),
            ],
        )
        for table_format in (COW2, MOR2)
    ),
]


@pytest.fixture(scope="module")
def stages(play: Callable[..., Stages]) -> Stages:
    return play(SCENARIOS)


@pytest.mark.parametrize("alias", [scenario.alias for scenario in SCENARIOS])
def test_only_what_was_chosen_is_written(stages: Stages, alias: str) -> None:
    assert_played(stages[alias])
