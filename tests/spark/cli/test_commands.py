"""The command line on real parts: what the README says, run as it stands there."""

import json
import re
import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_cli.main import main
from icdc_spark.iceberg.jvm.session import create_table_session
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.long_values import LONG, UNLIMITED, mend
from icdc_testing.target import oracle
from icdc_testing.user_programs import pages

pytestmark = pytest.mark.spark

README = Path(__file__).parents[3] / "README.md"


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """A session on an empty warehouse that the README's pipeline names; we stand beside it."""
    folder = tmp_path / "warehouse"
    monkeypatch.setenv("WAREHOUSE", str(folder))
    monkeypatch.chdir(tmp_path)
    session = create_table_session(spark, "readme", {"type": "hadoop", "warehouse": str(folder)})
    session.sql("CREATE NAMESPACE readme.shop")
    return session


def list_blocks(language: str) -> list[str]:
    """Return the README's fenced blocks of one language."""
    return pages.list_blocks(README, language)


def list_commands() -> list[list[str]]:
    """Return the `icdc` commands that the README shows, in order."""
    lines = "".join(list_blocks("sh")).splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("icdc ")]


def test_the_readmes_commands_plan_run_and_verify_the_readmes_pipeline(
    warehouse: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warehouse.sql("CREATE TABLE readme.shop.orders (order_id BIGINT, total INT) USING iceberg")
    warehouse.sql("INSERT INTO readme.shop.orders VALUES (1, 10), (2, 20)")
    (pipeline,) = list_blocks("yaml")
    (tmp_path / "local.yaml").write_text(pipeline, encoding="utf-8")
    shown = []
    for arguments in list_commands():
        assert main(arguments) == 0, capsys.readouterr()
        shown.append(capsys.readouterr().out)
    previewed, planned, ran, verified = shown
    assert '_id 1\n{\n  "order_id": 1,\n  "total": 10\n}\n' in previewed, previewed
    assert re.search(r"shop\.orders +orders +Export", planned), planned
    assert re.search(r"shop\.orders +Streaming", ran), ran
    assert re.search(r"shop\.orders +orders +\d+ +yes +2 +2", verified), verified
    (printed,) = list_blocks("text verify")
    command, _, table = printed.partition("\n")
    assert shlex.split(command)[2:] == list_commands()[-1]
    assert hide_ids(verified) == hide_ids(table)


def hide_ids(table: str) -> list[list[str]]:
    """Return the cells of each line, with one sign for all snapshots."""
    return [re.sub(r"\d{10,}", "#", line).split() for line in table.splitlines()]


def test_a_missing_table_stalls_alone_and_the_exit_code_says_so(
    spark: SparkSession,
    opensearch: OpenSearchNode,
    clean_indices: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.cli")
    spark.sql("CREATE TABLE lake.cli.present (id INT) USING iceberg")
    spark.sql("INSERT INTO lake.cli.present VALUES (1)")
    tables = [
        {"name": "cli.present", "identifierColumns": ["id"]},
        {"name": "cli.absent", "identifierColumns": ["id"]},
    ]
    resource = Harness(spark, clean_indices, tmp_path, tables).resource
    path = tmp_path / "pipeline.yaml"
    path.write_text(json.dumps(resource), encoding="utf-8")
    code = main(
        ["run", "-f", str(path), "--once", "--output", "json", "--state-dir", str(tmp_path / "s")]
    )
    printed = capsys.readouterr()
    status = json.loads(printed.out)["status"]
    by_name = {table["name"]: table for table in status["tables"]}
    assert code == 1
    assert by_name["cli.present"]["state"] == "Streaming"
    assert (by_name["cli.absent"]["state"], by_name["cli.absent"]["reason"]) == (
        "Stalled",
        "TableNotFound",
    )
    assert "cli.absent" in printed.err


def test_dead_letters_are_listed_and_sent_again_once_the_index_takes_them(
    spark: SparkSession, clean_indices: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.cli")
    spark.sql("CREATE OR REPLACE TABLE lake.cli.long (id INT, t STRING) USING iceberg")
    spark.sql(f"INSERT INTO lake.cli.long VALUES (1, 'a'), (2, '{LONG}')")
    entry = {"name": "cli.long", "identifierColumns": ["id"], "index": "long"}
    harness = Harness(spark, clean_indices, tmp_path, [entry | {"mapping": {"t": UNLIMITED}}])
    harness.sync()
    path = tmp_path / "pipeline.yaml"
    path.write_text(json.dumps(harness.resource), encoding="utf-8")

    assert main(["dead-letters", "list", "-f", str(path)]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"cli\.long +long +2 +illegal_argument_exception", printed), printed
    assert "secret" not in printed
    mend(clean_indices, "long-000001", "t")
    assert main(["dead-letters", "replay", "-f", str(path)]) == 0
    assert re.search(r"cli\.long +long +1 +0", capsys.readouterr().out)
    assert set(oracle.read_index(clean_indices, "long")) == {"1", "2"}
