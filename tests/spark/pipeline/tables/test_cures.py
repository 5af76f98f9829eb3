"""The cure of each reason of a table, as `icdc explain` and docs/words.md say it, cures the table.

One pipeline, with a table for each command. All of them stall in the second run, each for its
reason. Then what the command says is done for each table, and after that what it says for the whole
pipeline: each table goes on in the run after its own cure, and not before.
"""

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.status.pipeline_status import PipelineStatus, TableReason
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing import ROOT
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.local_runner import RepeatedPipeline
from icdc_testing.tables.cures import list_cures, type_request
from icdc_testing.tables.scenarios import Scenario, ScenarioStep, ScenarioTable
from icdc_testing.target import node_calls, oracle

from .cured_tables import MENDED, RESYNC, TABLES, WRONG, CuredTable
from .cures_elsewhere import ELSEWHERE, PASSING

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

NAMESPACE = "cures"
SHOWN_ONLY = (
    *("icdc plan ", "icdc logs ", "icdc dead-letters list ", "curl SEARCH/icdc-state/_doc/"),
    "curl 'SEARCH/_cat/allocation?v'",
)
"""Commands that show the cause, and change nothing."""


class CuredPipeline:
    """The pipeline, and what its tables said after each run."""

    def __init__(self, spark: SparkSession, url: str, folder: Path) -> None:
        self.stages = {
            table.name: ScenarioTable(
                spark, url, NAMESPACE, Scenario(name=table.name, steps=(), columns=table.columns)
            )
            for table in TABLES
        }
        self.entries: dict[str, dict[str, Any]] = {}
        self.statuses: list[PipelineStatus] = []
        self._pipeline = RepeatedPipeline(spark, Harness(spark, url, folder, ()), folder)
        self._sink: dict[str, Any] = self._pipeline.harness.resource["spec"]["sink"]["opensearch"]

    def play(self) -> None:
        """Do all runs: the export, the one in which all stall, and one for each kind of cure."""
        for table in TABLES:
            stage = self.stages[table.name]
            stage.create()
            stage.sql(table.fill)
        self._run([table for table in TABLES if not table.new], **WRONG)
        for table in TABLES:
            self.stages[table.name].act(ScenarioStep(do=table.broken))
            self._enter(table, table.wrong)
        self._run(TABLES)
        for table in TABLES:
            self.stages[table.name].act(ScenarioStep(do=table.acts))
            self._enter(table, table.mended)
        asked = [self.stages[table.name].name for table in TABLES if table.cure == RESYNC]
        self._run(TABLES, resync={"nonce": 1, "tables": asked})
        for mended in MENDED.values():
            self._run(TABLES, **mended)

    def _enter(self, table: CuredTable, changes: Any) -> None:
        stage = self.stages[table.name]
        entry = {
            "name": stage.name,
            "index": stage.scenario.alias,
            "identifierColumns": ["id"],
            **table.at_first,
            **changes,
        }
        self.entries[table.name] = {k: v for k, v in entry.items() if v is not None}

    def _run(self, tables: list[CuredTable], **spec: Any) -> None:
        for table in tables:
            if table.name not in self.entries:
                self._enter(table, {})
        for part in ("deadLetters", "indexSettings"):
            self._sink |= {part: spec.pop(part)} if part in spec else {}
        entries = [self.entries[table.name] for table in tables]
        self.statuses.append(self._pipeline.run(tables=entries, **spec))

    def list_reasons(self, table: CuredTable) -> list[str | None]:
        """Return the table's reason after each run but the first."""
        # The name and the index that it has in the end are those of one table alone.
        position = TABLES.index(table)
        return [status.tables[position].reason for status in self.statuses[1:]]


@pytest.fixture(scope="module")
def cured(
    opensearch: OpenSearchNode, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CuredPipeline]:
    node_calls.clean_indices(opensearch.url)
    spark.sql(f"create namespace lake.{NAMESPACE}")
    pipeline = CuredPipeline(spark, opensearch.url, tmp_path_factory.mktemp("cures"))
    with warnings.catch_warnings():
        # pyspark leaves the sockets over which it collects to the garbage collector.
        warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
        pipeline.play()
        gc.collect()
    yield pipeline
    node_calls.clean_indices(opensearch.url)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table.reason}-{table.name}")
def test_a_table_stalls_until_its_cure_is_carried_out(
    cured: CuredPipeline, table: CuredTable
) -> None:
    stalled, *later = cured.list_reasons(table)
    assert stalled == table.reason, cured.statuses[1].tables[TABLES.index(table)]
    healthy = [reason is None for reason in later]
    assert healthy == [step >= table.step for step in (1, *MENDED)], cured.statuses
    stage = cured.stages[table.name]
    documents = oracle.read_index(stage.url, cured.entries[table.name]["index"])
    wanted = oracle.read_expected(
        stage.spark, stage.table, ["id"], columns=table.read, where=table.where
    )
    # By their values: without a key, ids are those of positions in files.
    assert sort_by_id(documents) == sort_by_id(wanted)


def sort_by_id(documents: dict[str, Any]) -> list[Any]:
    return sorted(documents.values(), key=lambda document: document["id"])


@pytest.mark.parametrize("reason", TableReason)
def test_each_command_of_a_cure_is_carried_out_by_a_test(reason: TableReason) -> None:
    here = {table.cure for table in TABLES if table.reason is reason}
    elsewhere = {part for of, part in ELSEWHERE if of is reason}
    for command in list_cures(reason) if reason not in PASSING else ():
        shown = command.startswith(SHOWN_ONLY)
        assert shown or [part for part in here | elsewhere if part in command], command
    assert here or elsewhere or reason in PASSING


@pytest.mark.parametrize("test", [*ELSEWHERE.values(), *PASSING.values()])
def test_a_test_of_a_cure_exists(test: str) -> None:
    path, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_what_opensearch_is_asked_for_a_cause_is_answered(cured: CuredPipeline) -> None:
    asked = {
        command
        for reason in TableReason
        for command in list_cures(reason)
        if command.startswith("curl") and "-X" not in command
    }
    assert len(asked) >= 4
    stage = cured.stages["edited"]
    for command in asked:
        assert type_request(command, stage.url, stage.scenario.alias)


@pytest.mark.parametrize(
    ("block", "refusal"), [("read_only", 403), ("read_only_allow_delete", 429)]
)
def test_opensearch_refuses_to_lift_two_blocks_in_one_request(
    cured: CuredPipeline, block: str, refusal: int
) -> None:
    stage = cured.stages[f"blocked_{block}"]
    settings, name = f"/{stage.scenario.alias}/_settings", f"index.blocks.{block}"
    assert node_calls.call(stage.url, "PUT", settings, {name: True}).status == 200
    both = {name: None, "index.blocks.write": None}
    assert node_calls.call(stage.url, "PUT", settings, both).status == refusal
    assert node_calls.call(stage.url, "PUT", settings, {name: None}).status == 200
