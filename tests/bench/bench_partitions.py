"""The export of a wide table in thousands of partitions. `make bench-partitions`.

The table of Druid's issue 11231: 10,526 daily partitions of 95 rows with 200 columns, and the same
with fewer partitions. Each is exported by a run of its own, in processes as `icdc run` starts them,
with two cores and a heap of 2 GB, into a fresh OpenSearch node. Every ten seconds all garbage is
collected: what is left then must not grow with the partitions. Prints one JSON object, or with
`--table` Markdown.
"""

import argparse
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

from icdc_cli.embedded.lake import LakeProcess, build_jdbc_catalog
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.bench.machine import format_runs, machine
from icdc_testing.bench.many_tables import FollowedTables, Taken

ROWS = 95
"""In a partition."""
COLUMNS = 200
SAMPLE_SECONDS = 10.0
WRITING_SECONDS = 1800.0


def main() -> int:
    """Measure and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=[1000, 5000, 10_526])
    parser.add_argument("--heaps", nargs="+", default=["2g"], help="of the one JVM, in turn")
    parser.add_argument("--table", action="store_true", help="print Markdown")
    options = parser.parse_args()
    runs = []
    with tempfile.TemporaryDirectory(prefix="icdc-bench-") as name:
        for count in options.partitions:
            catalog = make_table(Path(name) / f"lake-{count}", count)
            for heap in options.heaps:
                folder = Path(name) / f"{count}-{heap}"
                runs.append({"partitions": count, "heap": heap, **_measure(folder, catalog, heap)})
                sys.stderr.write(f"{runs[-1]}\n")
    result = {**machine("pyspark", "pyiceberg"), "rows": ROWS, "columns": COLUMNS, "runs": runs}
    sys.stdout.write(
        (format_runs(result) if options.table else json.dumps(result, indent=1)) + "\n"
    )
    return 0


def make_table(folder: Path, partitions: int) -> dict[str, str]:
    """Create `shop.t0` in a JDBC catalog (SQLite), a file in each partition; return properties."""
    (folder / "warehouse").mkdir(parents=True)
    properties = build_jdbc_catalog(folder / "catalog.db", folder / "warehouse")
    kinds = ("id * {n}", "cast(id as double) / {n}", "concat('value ', id % {n})", "id % {n} = 0")
    columns = [f"{kinds[n % len(kinds)].format(n=n + 1)} as c{n}" for n in range(COLUMNS - 2)]
    with LakeProcess(properties, folder=folder, memory="2g") as lake:
        lake.run_sql("create namespace lake.shop")
        # Without a shuffle or a sort: the rows of a task are in the order of their days.
        lake.run_sql(
            "create table lake.shop.t0 using iceberg partitioned by (day) "
            "tblproperties ('write.distribution-mode'='none', "
            "'write.spark.fanout.enabled'='false') as select id, "
            f"date_add(date'2000-01-01', cast(floor(id / {ROWS}) as int)) as day, "
            f"{', '.join(columns)} from range(0, {partitions * ROWS}, 1, 1)"
        )
    return properties


def _measure(folder: Path, catalog: dict[str, str], heap: str) -> dict[str, Any]:
    (folder / "runs").mkdir(parents=True)
    ended = Event()
    with (
        OpenSearchNode(folder / "opensearch") as node,
        FollowedTables(folder / "runs", node.url, catalog, 1, heap=heap) as run,
        ThreadPoolExecutor(1) as pool,
    ):
        sampling = pool.submit(_sample, run, ended)
        try:
            _, seconds = run.catch_up()
        finally:
            ended.set()
        samples = [*sampling.result(), run.take()]
    return {
        "seconds": round(seconds, 1),
        "heap_after_collections_mb": round(max(taken.heap_mb for taken in samples)),
        "jvm_peak_mb": round(samples[-1].jvm_peak_mb),
        "driver_peak_mb": round(samples[-1].driver_peak_mb),
        "workers_peak_mb": round(max(taken.workers_mb for taken in samples)),
    }


def _sample(run: FollowedTables, ended: Event) -> list[Taken]:
    samples = []
    while not ended.wait(SAMPLE_SECONDS):
        samples.append(run.take())
    return samples


if __name__ == "__main__":
    raise SystemExit(main())
