"""The export of a wide table in thousands of partitions. `make bench-partitions`.

The table of Druid's issue 11231: 10,526 daily partitions of 95 rows with 200 columns, and the same
with fewer partitions. Each is exported by a run of its own, in processes as `icdc run` starts them,
with two cores and a heap of 2 GB, into a fresh OpenSearch node. Every ten seconds all garbage is
collected: what is left then must not grow with the partitions. `--tables 100` shares the partitions
out among so many tables of one pipeline. Prints one JSON object, or with `--table` Markdown; in
both the growth of the heap for each further 1,000 partitions, by the line through all samples of
all runs, with its 95 % confidence interval.
"""

import argparse
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from threading import Event

from icdc_cli.embedded.lake import LakeProcess, build_jdbc_catalog
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.bench.machine import describe_machine, print_runs
from icdc_testing.bench.many_tables import FollowedTables, Taken
from icdc_testing.bench.state_growth import measure_trend

ROWS = 95
"""In a partition."""
COLUMNS = 200
SAMPLE_SECONDS = 10.0


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=[1000, 5000, 10_526])
    parser.add_argument("--heaps", nargs="+", default=["2g"], help="of the one JVM, in turn")
    parser.add_argument("--tables", type=int, nargs="+", default=[1], help="that share them")
    parser.add_argument("--table", action="store_true", help="print Markdown")
    options = parser.parse_args()
    runs, sampled = [], list[tuple[int, float]]()
    with tempfile.TemporaryDirectory(prefix="icdc-bench-") as name:
        for partitions, tables in product(options.partitions, options.tables):
            catalog = make_tables(Path(name) / f"lake-{partitions}-{tables}", partitions, tables)
            for heap in options.heaps:
                folder = Path(name) / f"{partitions}-{tables}-{heap}"
                seconds, samples = _measure(folder, catalog, tables, heap)
                sampled += [(partitions, taken.heap_mb) for taken in samples]
                case = {"partitions": partitions, "tables": tables, "heap": heap}
                runs.append({**case, "seconds": round(seconds, 1), **_describe(samples)})
                sys.stderr.write(f"{runs[-1]}\n")
    result = {
        **describe_machine("pyspark", "pyiceberg"),
        "rows": ROWS,
        "columns": COLUMNS,
        "runs": runs,
    }
    if len(options.partitions) > 1:
        trend = measure_trend(*zip(*sampled, strict=True))
        growth = f"{trend.slope:.2f} +- {trend.margin:.2f}"
        result["heap MB for 1,000 further partitions"] = growth
    print_runs(result, as_table=options.table)
    return 0


def make_tables(folder: Path, partitions: int, tables: int = 1) -> dict[str, str]:
    """Create `shop.t0` and so on in a JDBC catalog (SQLite); return the catalog's properties.

    Each has an equal share of the partitions, with a file in each of them.
    """
    (folder / "warehouse").mkdir(parents=True)
    properties = build_jdbc_catalog(folder / "catalog.db", folder / "warehouse")
    kinds = ("id * {n}", "cast(id as double) / {n}", "concat('value ', id % {n})", "id % {n} = 0")
    columns = [f"{kinds[n % len(kinds)].format(n=n + 1)} as c{n}" for n in range(COLUMNS - 2)]
    with LakeProcess(properties, folder=folder, memory="2g") as lake:
        lake.run_sql("create namespace lake.shop")
        for number in range(tables):
            # Without a shuffle or a sort: the rows of a task are in the order of their days.
            lake.run_sql(
                f"create table lake.shop.t{number} using iceberg partitioned by (day) "
                "tblproperties ('write.distribution-mode'='none', "
                "'write.spark.fanout.enabled'='false') as select id, "
                f"date_add(date'2000-01-01', cast(floor(id / {ROWS}) as int)) as day, "
                f"{', '.join(columns)} from range(0, {partitions // tables * ROWS}, 1, 1)"
            )
    return properties


def _measure(
    folder: Path, catalog: dict[str, str], tables: int, heap: str
) -> tuple[float, list[Taken]]:
    """Return the seconds until all tables were exported, and the samples taken meanwhile."""
    (folder / "runs").mkdir(parents=True)
    ended = Event()
    with (
        OpenSearchNode(folder / "opensearch") as node,
        FollowedTables(folder / "runs", node.url, catalog, tables, heap=heap) as run,
        ThreadPoolExecutor(1) as pool,
    ):
        # What a JVM holds before its first session is no part of an export.
        run.await_session()
        sampling = pool.submit(_take_samples, run, ended)
        try:
            _, seconds = run.catch_up()
        finally:
            ended.set()
        return seconds, [*sampling.result(), run.take()]


def _describe(samples: list[Taken]) -> dict[str, int]:
    heaps = [taken.heap_mb for taken in samples]
    return {
        "heap_median_mb": round(statistics.median(heaps)),
        "heap_highest_mb": round(max(heaps)),
        "jvm_peak_mb": round(samples[-1].jvm_peak_mb),
        "driver_peak_mb": round(samples[-1].driver_peak_mb),
        "workers_peak_mb": round(max(taken.workers_mb for taken in samples)),
    }


def _take_samples(run: FollowedTables, ended: Event) -> list[Taken]:
    samples = []
    while not ended.wait(SAMPLE_SECONDS):
        samples.append(run.take())
    return samples


if __name__ == "__main__":
    raise SystemExit(main())
