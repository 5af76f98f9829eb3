"""What a row costs by the number of its columns, with and without our limit of generated methods.

`make bench-columns`. Prints one JSON object, or with `--table` Markdown. Spark generates one method
for each row of a stage. The JVM compiles none of more than 8,000 bytes, which then is interpreted
for every row. `spark.sql.codegen.hugeMethodLimit` is where Spark splits what it generates; its own
default is 65,535 bytes, that of runs 8,000. An export of one table is built with both in turn, and
its lines end where the sink takes them.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from icdc_api.spec.spark_defaults import DEFAULT_CONF
from icdc_testing.bench.changelog import Meter, Ways, start_session
from icdc_testing.bench.changelog_ranges import make_wide_export
from icdc_testing.bench.machine import describe_machine

LIMIT = "spark.sql.codegen.hugeMethodLimit"
LIMITS = {"Spark's": "65535", "ours": DEFAULT_CONF[LIMIT]}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, nargs="*", default=[20, 60, 92, 200])
    parser.add_argument("--cells", type=int, default=8_000_000, help="rows times columns")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-rounds", type=int, default=3)
    parser.add_argument("--table", action="store_true", help="print Markdown")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icdc-bench-") as name:
        spark = start_session(Path(name), memory="3g")
        try:
            measured = [_measure(spark, count, options) for count in options.columns]
        finally:
            spark.stop()
    result = {**describe_machine("pyspark"), "rounds": options.rounds, "tables": measured}
    text = _format_markdown(measured) if options.table else json.dumps(result, indent=1)
    sys.stdout.write(text + "\n")
    return 0


def _measure(spark: SparkSession, columns: int, options: argparse.Namespace) -> dict[str, Any]:
    rows = options.cells // columns
    where = make_wide_export(spark, rows, columns)
    ways, meter = Ways(spark), Meter(spark)
    costs: dict[str, list[float]] = {name: [] for name in LIMITS}
    for done in range(options.warm_rounds + options.rounds):
        for name, limit in LIMITS.items():
            spark.conf.set(LIMIT, limit)
            cost = meter.measure(lambda: ways.compute_changelog(where, None))
            if done >= options.warm_rounds:
                costs[name].append(cost.cpu_seconds)
            sys.stderr.write(f"{columns} columns, {name}: {cost}\n")
    return {"columns": columns, "rows": rows, "cpu_seconds": costs}


def _format_markdown(measured: list[dict[str, Any]]) -> str:
    lines = [
        "| columns | rows | Spark's limit: CPU s | ours: CPU s | ratio |",
        "|---|---|---|---|---|",
    ]
    for table in measured:
        spans = [
            (statistics.median(costs), f"{min(costs):.1f} to {max(costs):.1f}")
            for costs in table["cpu_seconds"].values()
        ]
        shown = " | ".join(f"{median:.1f} ({span})" for median, span in spans)
        ratio = spans[1][0] / spans[0][0]
        lines.append(f"| {table['columns']} | {table['rows']:,} | {shown} | {ratio:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
