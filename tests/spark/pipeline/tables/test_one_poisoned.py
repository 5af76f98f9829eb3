"""Tables that cannot be followed for a reason of their own: each stalls alone and says why."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_testing.lake.schemas import build_schema_json
from icdc_testing.tables.acts import FILL, FILLED, FOUR, INSERT_FOUR
from icdc_testing.tables.playing import Stages, assert_played
from icdc_testing.tables.scenarios import Scenario, ScenarioStep, ScenarioTable, put, select_rows

pytestmark = pytest.mark.spark

NEW_COLUMNS = "alter table {t} add columns (c1 int, c2 int)"
INSERT = "insert into {t} values (4, 'd', 4, 1, 2)"


def limit_fields(stage: ScenarioTable) -> None:
    """Allow no field more than the index has, as an administrator may."""
    limit = {"index.mapping.total_fields.limit": 4}
    stage.call("PUT", f"{stage.scenario.alias}-000001/_settings", limit)


def write_nanoseconds(stage: ScenarioTable) -> None:
    """Another writer has written the times of commits in nanoseconds."""
    table = IcebergTable.load(stage.spark, stage.scenario.catalog, stage.name)
    path = Path(table.metadata_location.removeprefix("file:"))
    metadata = json.loads(path.read_text(encoding="utf-8"))
    for snapshot in metadata["snapshots"]:
        snapshot["timestamp-ms"] *= 1_000_000
    path.write_text(json.dumps(metadata), encoding="utf-8")


def repeat_key(folder: Path) -> Callable[[ScenarioTable], None]:
    """Another engine has written a map that holds one key twice."""

    def act(stage: ScenarioTable) -> None:
        maps = pa.array([[(4711, "x"), (4711, "y")]], pa.map_(pa.int32(), pa.string()))
        ids = pa.array([1], pa.int32())
        folder.mkdir()
        pq.write_table(pa.table({"id": ids, "m": maps}), folder / "part.parquet")
        source = f"`parquet`.`{folder}`"
        stage.sql(f"call {{c}}.system.add_files(table => '{{n}}', source_table => '{source}')")

    return act


BY_CASE: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"id": number, "name": name, "type": "string", "required": False}
        for number, name in enumerate(("x", "X"), start=11)
    ],
}


def run_case_sensitive(statement: str) -> Callable[[ScenarioTable], None]:
    """Somebody whose Spark tells names by case writes the table."""

    def act(stage: ScenarioTable) -> None:
        session = stage.spark.newSession()
        session.conf.set("spark.sql.caseSensitive", "true")
        session.sql(stage.fill_names(statement)).collect()

    return act


BOTH_CASES = "(1, 'b', 'c', struct('d', 'e')), (2, 'hidden', '', null)"

NAMES_BY_CASE = Scenario(
    name="by_case",
    columns=build_schema_json({"id": "int", "a": "string", "A": "string", "s": BY_CASE}),
    entry={"rowFilter": "a <> 'hidden'"},
    steps=[
        ScenarioStep(
            do=[
                run_case_sensitive(
                    "insert into {t} values (1,'b','c',struct('d','e')), (2,'hidden','',null)"
                )
            ],
            writes=[put("1", id=1, a="b", A="c", s={"x": "d", "X": "e"})],
            documents={"1": {"id": 1, "a": "b", "A": "c", "s": {"x": "d", "X": "e"}}},
        ),
        ScenarioStep(
            do=[run_case_sensitive("update {t} set A = 'f' where a = 'b'")],
            writes=[put("1", id=1, a="b", A="f", s={"x": "d", "X": "e"})],
            documents={"1": {"id": 1, "a": "b", "A": "f", "s": {"x": "d", "X": "e"}}},
        ),
    ],
)


WIDE = Scenario(
    name="wide",
    columns=build_schema_json({"id": "int", **{f"c{n}": "int" for n in range(1000)}}),
    steps=[
        ScenarioStep(
            reason="MappingInvalid",
            message="{n}: OpenSearch refused to create index 'wide-cow2-000001'; check "
            "sink.opensearch.indexSettings and tables[].mapping, and index templates for its name: "
            "Limit of total fields "
            "[1000] has been exceeded",
            documents={},
        )
    ],
)

WIDENED = Scenario(
    name="widened",
    steps=[
        ScenarioStep(do=[FILL], writes=FILLED),
        ScenarioStep(
            do=[limit_fields, NEW_COLUMNS, INSERT],
            reason="MappingInvalid",
            message="{n}: OpenSearch refused the fields `c1`, `c2` for index "
            "'widened-cow2-000001': Limit of total fields [4] has been exceeded; see the "
            "settings of the index, such as index.mapping.total_fields.limit, and "
            "tables[].mapping",
        ),
    ],
)

CAST = Scenario(
    name="cast",
    entry={"rowFilter": "cast(name as int) > 0"},
    steps=[
        ScenarioStep(
            do=["insert into {t} " + select_rows("(1,'1',1), (2,'secret-4711',2)")],
            reason="FilterInvalid",
            message="{n}: rowFilter fails on a row of the table ([CAST_INVALID_INPUT]): "
            "write it so that it works for every value, for example with try_cast, try_divide or "
            "nullif",
            documents={},
        )
    ],
)


def list_scenarios(folder: Path) -> list[Scenario]:
    healthy = ScenarioStep(do=[FILL], writes=FILLED)
    return [
        Scenario(name="first", steps=[healthy, ScenarioStep()]),
        WIDE,
        WIDENED,
        CAST,
        Scenario(
            name="key_twice",
            columns="id int, m map<int,string>",
            steps=[
                ScenarioStep(
                    do=[repeat_key(folder / "files")],
                    reason="FileUnreadable",
                    message="{n}: a map in a row contains the same key more than once "
                    "([DUPLICATED_MAP_KEY]), so it has no document: rewrite that row, or leave "
                    "its column out by naming the other columns in `columns`; it is "
                    f"file:{folder}/files/part.parquet",
                    documents={},
                )
            ],
        ),
        NAMES_BY_CASE,
        Scenario(
            name="nanoseconds",
            steps=[
                ScenarioStep(do=[FILL, write_nanoseconds], writes=FILLED),
                ScenarioStep(do=[INSERT_FOUR], writes=[FOUR]),
            ],
        ),
        Scenario(name="last", steps=[healthy, ScenarioStep()]),
    ]


ALIASES = [scenario.alias for scenario in list_scenarios(Path())]


@pytest.fixture(scope="module")
def stages(play: Callable[..., Stages], tmp_path_factory: pytest.TempPathFactory) -> Stages:
    return play(list_scenarios(tmp_path_factory.mktemp("poison")), retry={"initialSeconds": 1})


@pytest.mark.parametrize("alias", ALIASES)
def test_a_poisoned_table_stalls_alone_and_says_why(stages: Stages, alias: str) -> None:
    assert_played(stages[alias])
