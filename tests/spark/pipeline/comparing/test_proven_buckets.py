"""What the sums of buckets prove is what a comparison of every row and document finds."""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_spark.matching.buckets import (
    REFUSED_ID,
    Buckets,
    ProvenBuckets,
    add_up,
    collect_sums,
    compare_sums,
)
from icdc_spark.matching.digests import COMPARED, add_text_digests, digest_text
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.waiting.seeds import choose_seed

pytestmark = pytest.mark.spark

Member = tuple[str, str, str]
"""Id, routing and digest."""


def prove(
    spark: SparkSession,
    rows: Sequence[Member],
    documents: Sequence[Member],
    *,
    by_content: bool = False,
    refused: Sequence[str] = (),
) -> ProvenBuckets:
    ids = [(row_id,) for row_id in refused]
    named = spark.createDataFrame(ids, f"{REFUSED_ID} string") if ids else None
    of_rows, of_documents = (
        collect_sums(
            add_up(spark.createDataFrame(list(side), COMPARED), named, by_content=by_content)
        )
        for side in (rows, documents)
    )
    return compare_sums(of_rows, of_documents, by_content=by_content)


A, B = ("1", "", "x"), ("2", "", "y")


@pytest.mark.parametrize(
    ("rows", "documents", "refused", "equal"),
    [
        ([], [], (), True),
        ([A, B], [B, A], (), True),
        ([A, B], [A], (), False),
        ([A], [A, B], (), False),
        ([A], [("1", "", "y")], (), False),
        ([A], [("1", "r", "x")], (), False),
        ([A], [("3", "", "x")], (), False),
        ([A, A], [A], (), False),
        # Sums of two of each would be the same, were they of ids and of contents apart.
        ([A, B], [("1", "", "y"), ("2", "", "x")], (), False),
        ([A, B], [A], ("2",), True),
        ([A, B], [A, B], ("2",), False),
    ],
)
def test_rows_and_documents_are_proven_equal_only_where_they_are(
    spark: SparkSession,
    rows: list[Member],
    documents: list[Member],
    refused: tuple[str, ...],
    *,
    equal: bool,
) -> None:
    proof = prove(spark, rows, documents, refused=refused)
    assert proof.is_equal == equal
    if equal:
        assert (proof.others.members, proof.others.refused) == (len(documents), len(refused))


@pytest.mark.parametrize(
    ("documents", "refused", "equal"),
    [
        ([("f1", "", "x"), ("f2", "", "x"), ("f3", "", "y")], (), True),
        ([("f1", "", "x"), ("f2", "", "y"), ("f3", "", "y")], (), False),
        ([("f1", "", "x"), ("f3", "", "y")], ("g1",), True),
        # The document of the dead letter, in place of that of a row of equal content.
        ([("g1", "", "x"), ("f3", "", "y")], ("g1",), False),
    ],
)
def test_what_a_compaction_moved_is_proven_equal_by_its_content(
    spark: SparkSession, documents: list[Member], refused: tuple[str, ...], *, equal: bool
) -> None:
    rows = [("g1", "", "x"), ("g2", "", "y"), ("g3", "", "x")]
    proof = prove(spark, rows, documents, by_content=True, refused=refused)
    # What means the same may be in several buckets: all of it is looked at, or nothing.
    assert (proof.is_equal, proof.differing) == (equal, None)
    assert not prove(spark, rows, documents, refused=refused).is_equal


def test_what_differs_is_in_the_buckets_that_differ_and_nowhere_else(
    spark: SparkSession,
) -> None:
    _, chosen = choose_seed("rows that differ")
    rows = [(f"k{n}|\u00e4\U0001f600", chosen.choice(["", "r"]), f"{n:x}") for n in range(3_000)]
    lost, spoiled = (set(chosen.sample(rows, 20)) for _ in range(2))
    documents = [
        (key, routing, "spoiled" if (key, routing, made) in spoiled else made)
        for key, routing, made in rows
        if (key, routing, made) not in lost
    ]
    found = prove(spark, rows, documents).differing
    assert found is not None
    # The function that the scan asks for each document names the same buckets.
    by_bucket: defaultdict[bool, set[Member]] = defaultdict(set)
    for row in rows:
        by_bucket[found.hold(row[0])].add(row)
    assert lost | spoiled <= by_bucket[True]
    assert 20 <= len(found.numbers) <= 40
    selected = found.select(spark.createDataFrame(rows, COMPARED))
    assert {tuple(row) for row in selected.collect()} == by_bucket[True]


@pytest.mark.parametrize(
    "text", ['{"a":1}', '{"a":"\\n\u00e9\U0001f600","b":[{}]}', "{}"], ids=["short", "odd", "empty"]
)
def test_lines_have_the_digests_of_the_documents_that_they_write(
    spark: SparkSession, text: str
) -> None:
    action = {"version": 1, "_id": 'quote" \\N|\n\u00e9\U0001f600', "routing": "\u00fc"}
    for ascii_only in (True, False):
        head = json.dumps({"index": action}, ensure_ascii=ascii_only)
        lines = [(bytearray(f"{head}\n{text}\n".encode()), expect) for expect in ("c", "r")]
        made = add_text_digests(spark.createDataFrame(lines, "line binary, expect string"))
        # Of a row on which an expression fails there is no document.
        assert [row["digest"] for row in made.collect()] == [digest_text(text), "none"]


def test_documents_with_other_bytes_and_the_same_meaning_are_no_difference(
    spark: SparkSession, lake: Lake, proxy: FaultProxy, clean_indices: str, tmp_path: Path
) -> None:
    table = lake.create("id int, name string, n double")
    values = ", ".join(f"({n}, 'name {n}', {n}.5)" for n in range(400))
    lake.sql(f"insert into lake.{table} values {values}")
    entry = {"name": table, "identifierColumns": ["id"], "index": "things"}
    pipeline = Harness(spark, proxy.url, tmp_path, [entry])
    pipeline.sync()
    equal = {"equal": True, "rows": 400, "documents": 400, "refused": 0}
    assert select(pipeline.inspect(RunMode.VERIFY), equal) == equal
    once = len(list_pages(proxy))

    documents = oracle.read_index(clean_indices, "things")
    for key in ("5", "123"):
        turned = dict(reversed(documents[key].items()))
        oracle.request(f"{clean_indices}/things-000001/_doc/{key}", "PUT", turned)
    assert select(pipeline.inspect(RunMode.VERIFY), equal) == equal
    # The bytes prove nothing of two buckets, so that all is read a second time.
    assert len(list_pages(proxy)) == 3 * once
    oracle.request(f"{clean_indices}/things-000001/_doc/7", "DELETE")
    answer = pipeline.inspect(RunMode.REPAIR)
    assert (answer["rows"], answer["missing"]["samples"], answer["repaired"]) == (400, ["7"], 1)
    assert answer["different"]["count"] == 0


def select(entry: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in like}


def list_pages(proxy: FaultProxy) -> list[Any]:
    """Return the requests for pages of a scan."""
    bodies = [json.loads(seen.body) for seen in proxy.list_requests("/_search?")]
    return [body for body in bodies if "pit" in body]


def test_a_bucket_holds_the_same_ids_for_python_and_for_the_jvm(spark: SparkSession) -> None:
    rows = [(f"{n}\u00e4\0\U0001f600", "", "x") for n in range(500)]
    some = Buckets(frozenset(range(0, 1024, 2)))
    of_python = {row for row in rows if some.hold(row[0])}
    selected = some.select(spark.createDataFrame(rows, COMPARED))
    assert {tuple(row) for row in selected.collect()} == of_python
    assert 150 < len(of_python) < 350


def test_where_most_buckets_differ_all_rows_are_looked_at(spark: SparkSession) -> None:
    rows = [(f"{n}", "", "x") for n in range(3_000)]
    proof = prove(spark, rows, [(row_id, "", "y") for row_id, _, _ in rows])
    assert (proof.is_equal, proof.differing, proof.others.members) == (False, None, 0)
