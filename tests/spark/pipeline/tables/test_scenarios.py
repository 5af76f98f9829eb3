"""The seven integration scenarios and the eleven carry-over cases of the closest peer.

As operations on real tables, each with the exact set of writes that the index gets.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_testing.lake.lake import CATALOG
from icdc_testing.tables.playing import Stages, assert_played
from icdc_testing.tables.scenarios import (
    COW2,
    EVERY_FORMAT,
    MOR2,
    MOR3,
    Format,
    Op,
    Scenario,
    ScenarioStep,
    ScenarioTable,
    put,
    remove,
    select_rows,
)

pytestmark = pytest.mark.spark

ALICE, BOB = put("1", id=1, name="Alice", age=30), put("2", id=2, name="Bob", age=25)
CAROL, DAVE = put("3", id=3, name="Carol", age=35), put("4", id=4, name="Dave", age=40)
PEOPLE = "insert into {t} " + select_rows("(1,'Alice',30), (2,'Bob',25), (3,'Carol',35)")

# Export, insert, update without carry-over, delete: integration scenarios 1, 2, 4, 5 and 6.
INTEGRATION = Scenario(
    name="people",
    steps=[
        ScenarioStep(do=[PEOPLE], writes=[ALICE, BOB, CAROL]),
        ScenarioStep(do=["insert into {t} values (4,'Dave',40)"], writes=[DAVE]),
        ScenarioStep(
            do=["update {t} set age = 26 where id = 2"],
            writes=[put("2", id=2, name="Bob", age=26)],
        ),
        ScenarioStep(do=["delete from {t} where id = 2"], writes=[remove("2")]),
        ScenarioStep(writes=[]),
    ],
)
# Scenario 3: a table with a catalog of its own beside tables of the shared one.
ELSEWHERE = Scenario(
    name="elsewhere",
    catalog="second",
    steps=[ScenarioStep(do=["insert into {t} values (1,'Alice',30)"], writes=[ALICE])],
)
# Scenario 7: one commit removes both files; Bob's row is rewritten as it was. Merge-on-read marks
# his old row as deleted, and what a marked row held is not read: it is written once more.
US_ALICE, EU_BOB = (
    put("1", id=1, name="Alice", region="US"),
    put("2", id=2, name="Bob", region="EU"),
)
EU_ALICE = put("1", id=1, name="Alice", region="EU")
TO_EUROPE = (
    "merge into {t} using (select 1 as one) on true when matched then update set region = 'EU'"
)


def make_regions(form: Format, moved: Sequence[Op]) -> Scenario:
    return Scenario(
        name="regions",
        format=form,
        columns="id int, name string, region string",
        partitioned="region",
        steps=[
            ScenarioStep(
                do=[
                    "insert into {t} values (1,'Alice','US')",
                    "insert into {t} values (2,'Bob','EU')",
                ],
                writes=[US_ALICE, EU_BOB],
            ),
            ScenarioStep(do=[TO_EUROPE], writes=moved),
            # ... and back, touching her file alone where files are not rewritten
            ScenarioStep(do=["update {t} set region = 'US' where id = 1"], writes=[US_ALICE]),
        ],
    )


# The proof of concept in the peer's design: everything in the files but two rows is carry-over.
USERS = Scenario(
    name="users",
    columns="id int, name string, region string, age int",
    partitioned="region",
    steps=[
        ScenarioStep(
            do=[
                "insert into {t} "
                + select_rows(
                    "(1,'Alice','US',30), (2,'Bob','US',25), "
                    "(3,'Carol','EU',35), (4,'Dave','EU',28)"
                )
            ],
            writes=[
                put("1", id=1, name="Alice", region="US", age=30),
                put("2", id=2, name="Bob", region="US", age=25),
                put("3", id=3, name="Carol", region="EU", age=35),
                put("4", id=4, name="Dave", region="EU", age=28),
            ],
        ),
        ScenarioStep(
            do=["update {t} set name = 'Bobby' where id = 2", "delete from {t} where id = 4"],
            writes=[put("2", id=2, name="Bobby", region="US", age=25), remove("4")],
        ),
    ],
)


def overwrite(values: str) -> str:
    """Return one commit that removes every file and adds one with these rows."""
    return "insert overwrite {t} " + select_rows(values)


# The eleven cases of carry-over removal, in brackets the peer's number of surviving events; an
# update is one write here, not a delete and an insert.
CARRY_OVER = Scenario(
    name="carry_over",
    columns="id int, name string, age int, mail string",
    steps=[
        # no rows at all [0]: a commit without a file
        ScenarioStep(do=["insert into {t} select 1, 'x', 1, 'x' where false"], writes=[]),
        # two inserts [2]
        ScenarioStep(
            do=["insert into {t} " + select_rows("(1,'Alice',30,null), (2,'Bob',25,null)")],
            writes=[ALICE, BOB],
        ),
        # one delete [1], of a whole file
        ScenarioStep(do=["delete from {t} where id > 0"], writes=[remove("1"), remove("2")]),
        ScenarioStep(
            do=["insert into {t} " + select_rows("(1,'Alice',30,null)")],
            writes=[ALICE],
        ),
        # the same row removed and added [0]
        ScenarioStep(do=[overwrite("(1,'Alice',30,null)")], writes=[]),
    ],
)
REWRITES = Scenario(
    name="rewrites",
    columns="id int, name string, age int, mail string",
    steps=[
        ScenarioStep(
            do=[
                "insert into {t} "
                + select_rows("(1,'Alice',30,'a'), (2,'Bob',25,null), (3,null,35,null)")
            ],
            writes=[
                put("1", id=1, name="Alice", age=30, mail="a"),
                BOB,
                put("3", id=3, age=35),
            ],
        ),
        # identical rows that hold nulls [0]
        ScenarioStep(do=[overwrite("(3,null,35,null), (1,'Alice',30,'a'), (2,'Bob',25,null)")]),
        # a changed row [2], alone among three rewritten ones [2]
        ScenarioStep(
            do=[overwrite("(1,'Alice',30,'a'), (2,'Bobby',25,null), (3,null,35,null)")],
            writes=[put("2", id=2, name="Bobby", age=25)],
        ),
        # two removed, one of them added again [1]
        ScenarioStep(do=[overwrite("(1,'Alice',30,'a'), (3,null,35,null)")], writes=[remove("2")]),
        # null becomes a value, as after a new column [2]
        ScenarioStep(
            do=[overwrite("(1,'Alice',30,'a'), (3,null,35,'carol@example.com')")],
            writes=[put("3", id=3, age=35, mail="carol@example.com")],
        ),
    ],
)
EVE = put("5", id=5, name="Eve", age=50)
ONE_EVE = {"5": {"id": 5, "name": "Eve", "age": 50}}


def check_duplicates(stage: ScenarioTable) -> None:
    """Require that the table says that it has a key twice."""
    duplicates = stage.call("GET", f"icdc-state/_doc/{stage.scenario.alias}")["_source"][
        "duplicates"
    ]
    assert duplicates == {"count": 1, "samples": ["5"]}


DUPLICATES = Scenario(
    name="twins",
    steps=[
        ScenarioStep(
            do=["insert into {t} " + select_rows("(5,'Eve',50), (5,'Eve',50)")],
            writes=[EVE, EVE, EVE],
            documents=ONE_EVE,
            check=check_duplicates,
        ),
        # both removed and both added [0]: of a key that is known to occur twice each batch writes
        # what the snapshot says, here the same document again
        ScenarioStep(do=[overwrite("(5,'Eve',50), (5,'Eve',50)")], writes=[EVE], documents=ONE_EVE),
        # two removed and one added [1]: the document stays, because a row of its key does
        ScenarioStep(
            do=[overwrite("(5,'Eve',50)")], writes=[EVE], documents=ONE_EVE, check=check_duplicates
        ),
        ScenarioStep(do=["delete from {t} where id = 5"], writes=[remove("5")]),
    ],
)

SCENARIOS = [
    *(replace(INTEGRATION, format=table_format) for table_format in EVERY_FORMAT),
    make_regions(COW2, [EU_ALICE]),
    make_regions(MOR2, [EU_ALICE, EU_BOB]),
    make_regions(MOR3, [EU_ALICE, EU_BOB]),
    USERS,
    replace(USERS, format=MOR3),
    ELSEWHERE,
    CARRY_OVER,
    REWRITES,
    DUPLICATES,
    replace(DUPLICATES, format=MOR3),
]


@pytest.fixture(scope="module")
def stages(
    play: Callable[..., Stages], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Stages:
    warehouse: Path = tmp_path_factory.mktemp("second")
    properties = {"type": "hadoop", "warehouse": str(warehouse)}
    spark.conf.set("spark.sql.catalog.second", spark.conf.get(f"spark.sql.catalog.{CATALOG}") or "")
    for key, value in properties.items():
        spark.conf.set(f"spark.sql.catalog.second.{key}", value)
    own = {"catalog": {"name": "second", "properties": properties}}
    return play([replace(s, entry=own) if s is ELSEWHERE else s for s in SCENARIOS])


@pytest.mark.parametrize("alias", [scenario.alias for scenario in SCENARIOS])
def test_each_commit_writes_exactly_what_changed(stages: Stages, alias: str) -> None:
    assert_played(stages[alias])
