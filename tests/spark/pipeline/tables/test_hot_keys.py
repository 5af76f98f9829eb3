"""Half of the rows of a batch have one key, one partition or one content: no task keeps them.

One key and one content alone, unless ICDC_SOAK is set; then the hot half is larger than the heap of
the one JVM.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.waiting.processes import PROC, list_python_workers

pytestmark = pytest.mark.spark

SOAK = bool(os.environ.get("ICDC_SOAK"))
FEW, MANY = 1_000, 2_000_000 if SOAK else 20_000
"""Rows of a batch, of which every second one is hot."""
FILES = 200
"""Data files of the batch with many rows, each with its part of the hot half."""
HOT_BYTES = 2_048
"""Of one hot row; all of them together are more than a worker may gain."""
GAIN_KB = 8_192
"""What a worker may hold more for the batch with many rows than for that with few."""
SMALL = {"spark.sql.execution.arrow.maxRecordsPerBatch": "200"}
"""Or a worker gets all of the small batch at once, and a twentieth of the large one."""
NOT_YET_HOT = "(-1, 'cold', 'a')"


@dataclass(frozen=True)
class Skew:
    """How half of the rows are alike."""

    row: str
    """`id, place, text` of row number `id` in SQL; `hot` is true for every second one."""
    entry: dict[str, Any]
    """Of the table in the spec."""
    partitioned: str = ""


TEXT = f"if(hot, rpad(cast(id as string), {HOT_BYTES}, sha2('', 512)), 'cold')"
KEYED: dict[str, Any] = {"identifierColumns": ["id"]}
SKEWS = {
    "key": Skew(f"if(hot, 0, id), 'any', {TEXT}", KEYED),
    "partition": Skew(f"id, if(hot, 'hot', concat('p', id % 7)), {TEXT}", KEYED, "place"),
    "content": Skew(
        f"if(hot, 0, id), 'any', if(hot, repeat('x', {HOT_BYTES}), 'cold')", {"appendOnly": True}
    ),
}


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    for key, value in SMALL.items():
        spark.conf.set(key, value)
    yield
    for key in SMALL:
        spark.conf.unset(key)


@pytest.mark.sampled
@pytest.mark.parametrize("what", SKEWS if SOAK else ["key", "content"])
@pytest.mark.usefixtures("small_batches")
def test_half_of_a_batch_being_alike_costs_a_worker_no_memory(
    spark: SparkSession, lake: Lake, clean_indices: str, tmp_path: Path, what: str
) -> None:
    skew = SKEWS[what]
    table = lake.create("id long, place string, text string", partitioned=skew.partitioned)
    lake.sql(f"insert into lake.{table} values {NOT_YET_HOT}")
    entry = {"name": table, "index": "hot", **skew.entry}
    pipeline = Harness(spark, clean_indices, tmp_path, [entry])
    pipeline.resource["spec"]["sink"]["opensearch"]["bulk"] = {"maxBytes": 65_536}
    pipeline.sync()
    peaks = [_follow(pipeline, lake, table, skew, rows) for rows in (FEW, MANY)]
    assert peaks[1] - peaks[0] < GAIN_KB, f"peaks of a worker in kB: {peaks}"
    _assert_equal(spark, clean_indices, table, skew)
    assert pipeline.inspect(RunMode.VERIFY)["equal"]


def _follow(pipeline: Harness, lake: Lake, table: str, skew: Skew, rows: int) -> int:
    """Commit rows, follow them, and return the most memory that one worker held, in kB."""
    files = min(FILES, rows)
    numbered = f"select id, id % 2 = 0 as hot from range({rows}, {2 * rows}, 1, {files})"
    lake.sql(f"insert into lake.{table} select {skew.row} from ({numbered})")
    for worker in list_python_workers():
        # Linux forgets the peak: see proc(5).
        (PROC / str(worker) / "clear_refs").write_text("5")
    pipeline.sync()
    return max(map(_read_peak_kb, list_python_workers()))


def _read_peak_kb(pid: int) -> int:
    status = (PROC / str(pid) / "status").read_text()
    peak = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    assert peak is not None
    return int(peak[1])


def _assert_equal(spark: SparkSession, url: str, table: str, skew: Skew) -> None:
    """Compare index and table without the application, as many times as each document is there."""
    # Digests of texts, which together are larger than this process should get.
    indexed = sorted(
        (document["id"], document["place"], hashlib.sha256(document["text"].encode()).hexdigest())
        for document in (hit["_source"] for hit in oracle.read_hits(url, "hot"))
    )
    read = spark.sql(f"select id, place, sha2(text, 256) from lake.{table}").collect()
    rows = [tuple(row) for row in read]
    if skew.entry is not KEYED:
        assert indexed == sorted(rows)
        return
    # Any of the rows of a key may be its document.
    assert [row[0] for row in indexed] == sorted({row[0] for row in rows})
    assert set(indexed) <= set(rows)
