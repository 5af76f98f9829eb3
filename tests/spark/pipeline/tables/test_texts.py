"""Times of day and timestamps of nanoseconds, all the way into an index.

Neither Spark nor its SQL knows these types, so the rows are written by Iceberg's Java writers and
the documents are stated here.
"""

from collections.abc import Callable
from typing import Any

import pytest

from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_testing.lake.java.writers import JavaWriter
from icdc_testing.lake.schemas import build_schema_json
from icdc_testing.tables.playing import Stages, assert_played
from icdc_testing.tables.scenarios import (
    MOR2,
    MOR3,
    Document,
    Scenario,
    ScenarioStep,
    ScenarioTable,
    put,
    remove,
)

pytestmark = pytest.mark.spark

KINDS = {"t": "time", "n": "timestamp_ns", "z": "timestamptz_ns"}
NOON = {"t": "12:00", "n": "2024-03-15T12:00:00.000000001", "z": "2024-03-15T12:00:00+02:00"}
NOON_TEXT = {
    "t": "12:00:00.000000",
    "n": "2024-03-15T12:00:00.000000001",
    "z": "2024-03-15T10:00:00.000000000Z",
}
LATER = {"t": "12:00:00.000001", "n": "2262-04-11T23:47:16.854775807", "z": "1970-01-01T00:00:00Z"}
LATER_TEXT = {
    "t": "12:00:00.000001",
    "n": "2262-04-11T23:47:16.854775807",
    "z": "1970-01-01T00:00:00.000000000Z",
}

Files = dict[str, Any]
"""The Java data files that a scenario has written, by a name of its own."""


def make_writer(stage: ScenarioTable) -> JavaWriter:
    return JavaWriter(IcebergTable.load(stage.spark, stage.scenario.catalog, stage.name))


def make_cells(java: JavaWriter, kinds: dict[str, str], values: dict[str, str]) -> dict[str, Any]:
    return {name: java.parse_value(kind, values[name]) for name, kind in kinds.items()}


def make_scenario(version: int) -> Scenario:
    """Rows are appended, rewritten, deleted by position, and compared after each step."""
    kinds = KINDS if version == 3 else {"t": KINDS["t"]}
    files: Files = {}

    def select_texts(values: dict[str, str]) -> dict[str, str]:
        return {name: values[name] for name in kinds}

    def append(stage: ScenarioTable) -> None:
        java = make_writer(stage)
        noon = make_cells(java, kinds, NOON)
        files["first"] = java.append([{"id": 1, **noon}, {"id": 2, **noon}, {"id": 3}])

    def rewrite(stage: ScenarioTable) -> None:
        java = make_writer(stage)
        noon, later = make_cells(java, kinds, NOON), make_cells(java, kinds, LATER)
        rewritten = [{"id": 1, **noon}, {"id": 2, **later}, {"id": 3}]
        files["second"] = java.replace(files["first"], rewritten)

    def delete(stage: ScenarioTable) -> None:
        make_writer(stage).delete_positions(files["second"], [0, 2])

    def search(stage: ScenarioTable) -> None:
        stage.call("POST", f"{stage.scenario.alias}/_refresh")
        query = {"query": {"term": {"t": "12:00:00.000001"}}}
        assert stage.call("POST", f"{stage.scenario.alias}/_count", query)["count"] == 1

    first: dict[str, Document] = {
        "1": {"id": 1, **select_texts(NOON_TEXT)},
        "2": {"id": 2, **select_texts(NOON_TEXT)},
        "3": {"id": 3},
    }
    second = {**first, "2": {"id": 2, **select_texts(LATER_TEXT)}}
    third = {"2": second["2"]}
    return Scenario(
        name="texts",
        format=MOR3 if version == 3 else MOR2,
        columns=build_schema_json({"id": "int", **kinds}),
        steps=[
            ScenarioStep(
                do=[append], writes=[put(k, **d) for k, d in first.items()], documents=first
            ),
            ScenarioStep(
                do=[rewrite], writes=[put("2", **second["2"])], documents=second, check=search
            ),
            ScenarioStep(do=[delete], writes=[remove("1"), remove("3")], documents=third),
        ],
    )


SCENARIOS = [make_scenario(2), make_scenario(3)]


@pytest.fixture(scope="module")
def stages(play: Callable[..., Stages]) -> Stages:
    return play(SCENARIOS)


@pytest.mark.parametrize("alias", [scenario.alias for scenario in SCENARIOS])
def test_a_table_with_types_that_spark_does_not_know_is_followed(
    stages: Stages, alias: str
) -> None:
    assert_played(stages[alias])
