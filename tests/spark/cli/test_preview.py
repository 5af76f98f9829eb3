"""What `icdc preview` shows is what an export indexes, and no OpenSearch is asked for it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_cli.main import main
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark

ALIAS = "previewed"
COLUMNS = (
    "id int, part string, name string, price decimal(9,2), at timestamp, day date, "
    "address struct<zip:string,no:int>, tags array<string>, extra map<string,int>, ratio double"
)
ROWS = (
    "(1, 'a', 'x', 1.50, timestamp '2024-03-15 14:30:00', date '2024-03-15', "
    "named_struct('zip', '1011', 'no', 7), array('p', 'q'), map('k', 1), 0.5), "
    "(2, 'b|c', null, null, null, null, null, null, null, double('NaN')), "
    "(3, 'd', 'y', 3.00, null, null, named_struct('zip', null, 'no', 1), array(), map(), 1.0)"
)


def run_preview(harness: Harness, **changes: Any) -> list[dict[str, Any]]:
    """Return the entries of all tables; the sink is a host that does not exist."""
    opensearch = harness.resource["spec"]["sink"]["opensearch"]
    hosts, opensearch["hosts"] = opensearch["hosts"], ["http://search.invalid:9200"]
    try:
        report = harness.run(RunMode.PREVIEW, **changes)
    finally:
        opensearch["hosts"] = hosts
    assert report.outcome is None, report.outcome
    assert report.result is not None
    tables: list[dict[str, Any]] = report.result["tables"]
    return tables


def read_index(url: str, alias: str) -> dict[str, Any]:
    return {hit["_id"]: hit["_source"] for hit in oracle.read_hits(url, alias)}


def list_types(mapping: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Return the type of each field and subfield by its path."""
    types = {}
    for name, field in {**mapping.get("properties", {}), **mapping.get("fields", {})}.items():
        types[above + name] = field.get("type", "object")
        types |= list_types(field, f"{above}{name}.")
    return types


CASES: dict[str, dict[str, Any]] = {
    "every column": {"identifierColumns": ["id", "part"]},
    "some columns": {"identifierColumns": ["id"], "columns": ["id", "name", "address"]},
    "a filter": {"identifierColumns": ["id"], "rowFilter": "price >= 2"},
    "append-only": {"appendOnly": True},
    "a mapping": {"identifierColumns": ["id"], "mapping": {"name": {"type": "text"}}},
}


def test_every_document_is_the_one_that_is_indexed(
    spark: SparkSession, lake: Lake, proxy: FaultProxy, clean_indices: str, tmp_path: Path
) -> None:
    tables = []
    for number, case in enumerate(CASES.values()):
        name = lake.create(COLUMNS)
        lake.sql(f"insert into lake.{name} values {ROWS}")
        lake.sql(f"insert into lake.{name} (id, part) values (4, 'later')")
        tables.append({"name": name, "index": f"{ALIAS}-{number}", **case})
    harness = Harness(spark, proxy.url, tmp_path, tables)
    asked = len(proxy.list_requests())
    entries = run_preview(harness, rows=100)
    assert len(proxy.list_requests()) == asked
    report = harness.run()
    assert [(t.reason, t.message) for t in report.tables] == [(None, None)] * len(CASES)
    for label, table, entry in zip(CASES, tables, entries, strict=True):
        shown = {document["_id"]: document["_source"] for document in entry["documents"]}
        assert shown == read_index(clean_indices, table["index"]), label
        assert shown, label
        index = oracle.request(f"{clean_indices}/{table['index']}-000001/_mapping")
        made: Mapping[str, Any] = index[f"{table['index']}-000001"]["mappings"]
        assert list_types(entry["mapping"]) == list_types(made), label
        assert entry["mapping"]["dynamic"] == made["dynamic"], label


def test_deleted_rows_are_not_shown_and_rows_of_several_files_are(
    spark: SparkSession, lake: Lake, proxy: FaultProxy, clean_indices: str, tmp_path: Path
) -> None:
    mode = "'write.delete.mode'='merge-on-read','format-version'='2'"
    spark.sql(f"create table lake.db.some_deleted (id int) using iceberg tblproperties ({mode})")
    for number in range(3):
        spark.sql(f"insert into lake.db.some_deleted values ({number}), ({number + 10})")
    spark.sql("delete from lake.db.some_deleted where id = 0 or id = 1")
    entry = {"name": "db.some_deleted", "index": ALIAS, "identifierColumns": ["id"]}
    harness = Harness(spark, proxy.url, tmp_path, [entry])
    for rows, expected in ((100, {"2", "10", "11", "12"}), (3, None), (1, None)):
        (answer,) = run_preview(harness, rows=rows)
        ids = [document["_id"] for document in answer["documents"]]
        assert len(ids) == min(rows, 4)
        assert len(set(ids)) == len(ids)
        assert expected is None or set(ids) == expected
        assert run_preview(harness, rows=rows) == [answer], "the same rows each time"
    spark.sql("drop table lake.db.some_deleted")


def test_a_table_that_has_no_documents_says_why_and_others_are_shown(
    spark: SparkSession, lake: Lake, proxy: FaultProxy, tmp_path: Path
) -> None:
    good, empty, floating = (lake.create("id int, ratio float") for _ in range(3))
    lake.sql(f"insert into lake.{good} values (1, 0.5)")
    harness = Harness(
        spark,
        proxy.url,
        tmp_path,
        [
            {"name": good, "index": "good", "identifierColumns": ["id"]},
            {"name": empty, "index": "empty", "identifierColumns": ["id"]},
            {"name": floating, "index": "floating", "identifierColumns": ["ratio"]},
            {"name": good, "index": "absent", "identifierColumns": ["no"]} | {"name": "db.absent"},
            {"name": "db.filtered", "index": "filtered", "identifierColumns": ["id"]},
        ],
    )
    entries = run_preview(harness)
    assert [entry.get("reason") for entry in entries] == [
        *(None, None, "UnsupportedType", "TableNotFound", "TableNotFound"),
    ]
    assert entries[0]["documents"] == [{"_id": "1", "_source": {"id": 1, "ratio": 0.5}}]
    assert (entries[1]["documents"], entries[1]["snapshotId"]) == ([], None)
    harness.resource["spec"]["tables"] = [
        {"name": good, "index": "good", "identifierColumns": ["id"], "rowFilter": "nobody = 1"}
    ]
    assert [entry["reason"] for entry in run_preview(harness)] == ["FilterInvalid"]


def test_the_command_needs_neither_the_target_nor_its_secret(
    spark: SparkSession, lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1, 'Zoë')")
    harness = Harness(spark, "https://search.invalid:9200", tmp_path, [{"name": name}])
    harness.resource["spec"]["tables"][0] |= {"index": ALIAS, "identifierColumns": ["id"]}
    opensearch = harness.resource["spec"]["sink"]["opensearch"]
    opensearch["credentialsFrom"] = {"secretRef": {"name": "nobody-has-it"}}
    path = tmp_path / "pipeline.yaml"
    path.write_text(json.dumps(harness.resource), encoding="utf-8")
    command = ["preview", "-f", str(path), "--table", name, "--rows", "1"]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{name}   index {ALIAS}   snapshot ")
    assert '_id 1\n{\n  "id": 1,\n  "name": "Zoë"\n}\nmapping\n{\n  "dynamic": "strict",' in text
    assert main([*command, "-o", "json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["tables"]
    assert entry["documents"] == [{"_id": "1", "_source": {"id": 1, "name": "Zoë"}}]
