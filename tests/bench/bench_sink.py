"""How near the sink comes to what OpenSearch takes at most. `make bench-sink`.

Documents of three shapes are written into a new index, from an Iceberg table through Spark, with
the application's own sink and with the helpers of opensearch-py. The ceiling are the same request
bodies, made before and sent over one, two and four connections. OpenSearch has one core and all
clients have the other. The ways take turns, round by round, after rounds that nobody counts. Prints
one JSON object, or with `--table` Markdown, each shape as soon as it is measured.
"""

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.bench.changelog import start_session
from icdc_testing.bench.cores import start_pinned_node
from icdc_testing.bench.machine import describe_machine
from icdc_testing.bench.rates import MillionRate, Spent, choose_ceiling, summarise_rounds
from icdc_testing.bench.spending import SpendingMeter
from sink_tables import SHAPES, create_shaped_table
from sink_ways import CONNECTIONS, SinkWays, Way, name_raw

WARM_ROUNDS = 2
"""Of all ways; the ceiling's three among them warm OpenSearch for the others."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="*", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--documents", type=int, help="of each shape, in place of its own number")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-rounds", type=int, default=WARM_ROUNDS)
    parser.add_argument("--memory", default="2g", help="heap of Spark's JVM")
    parser.add_argument("--table", action="store_true", help="print Markdown")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icdc-bench-") as name:
        folder = Path(name)
        with start_pinned_node(folder / "opensearch") as node:
            spark = start_session(folder, memory=options.memory)
            try:
                shapes = [_measure_shape(spark, node, shape, options) for shape in options.shapes]
            finally:
                spark.stop()
            about = {**describe_machine("pyspark", "opensearch-py"), "opensearch": node.version}
    result = {**about, "rounds": options.rounds, "shapes": shapes}
    if options.table:
        result.pop("shapes")
        sys.stdout.write(", ".join(f"{key} {value}" for key, value in result.items()) + "\n")
    else:
        sys.stdout.write(json.dumps(result, indent=1) + "\n")
    return 0


def _measure_shape(
    spark: SparkSession, node: OpenSearchNode, shape: str, options: argparse.Namespace
) -> dict[str, Any]:
    documents = options.documents or SHAPES[shape].documents
    name = create_shaped_table(spark, SHAPES[shape], list(SHAPES).index(shape), documents)
    ways, meter = SinkWays(spark, node.url, name), SpendingMeter(node)
    contenders = ways.list_ways()
    rounds: defaultdict[str, list[Spent]] = defaultdict(list)
    for number in range(options.warm_rounds + options.rounds):
        for way, write in contenders.items():
            spent = _measure_way(spark, ways, meter, write, documents)
            sys.stderr.write(f"{shape}, {way}: {spent}\n")
            if number >= options.warm_rounds:
                rounds[way].append(spent)
    rates = {way: summarise_rounds(measured) for way, measured in rounds.items()}
    measured = {
        "shape": shape,
        "documents": documents,
        "bytes": round(ways.bytes / documents),
        "ceiling": choose_ceiling({name_raw(n): rates[name_raw(n)] for n in CONNECTIONS}),
        "ways": {way: asdict(rate) for way, rate in rates.items()},
    }
    if options.table:
        sys.stdout.write(_format_markdown(measured, rates) + "\n")
        sys.stdout.flush()
    return measured


def _measure_way(
    spark: SparkSession, ways: SinkWays, meter: SpendingMeter, write: Way, documents: int
) -> Spent:
    jvm: Any = spark._jvm
    jvm.System.gc()
    with ways.open_index() as index:

        def work() -> int:
            write(index)
            return documents

        spent = meter.measure(work, index)
        counted = ways.count(index)
    assert counted == documents, f"{counted} of {documents} documents are in the index"
    return spent


def _format_markdown(measured: Mapping[str, Any], rates: Mapping[str, MillionRate]) -> str:
    ceiling = rates[measured["ceiling"]].documents_per_second
    lines = [
        f"### {measured['shape']}: {measured['documents']:,} documents, {measured['bytes']} bytes "
        "each with the action line",
        "| way | documents/s | of the ceiling | slowest, fastest | client CPU s per million | "
        "of it Python | server CPU s per million |",
        "|---|---|---|---|---|---|---|",
    ]
    for way, rate in rates.items():
        lines.append(
            f"| {way} | {rate.documents_per_second:,.0f} | "
            f"{rate.documents_per_second / ceiling:.2f} | {rate.slowest:,.0f}, "
            f"{rate.fastest:,.0f} | {rate.client:.1f} | {rate.python:.1f} | {rate.server:.1f} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    raise SystemExit(main())
