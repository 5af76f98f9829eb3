"""What the proof costs that an index equals its table, and what it finds. `make bench-verify`.

A table of 20 columns is exported, and every 1,000th of its rows updated after that. Index and table
are compared; then one document is deleted, one added, one edited and one put back as it was before
the update, and they are compared again, repaired, and compared once more. Fails unless exactly
those four are found, and unless the repair writes three documents and deletes one, by OpenSearch's
own count. OpenSearch has one core and the client has the other. Prints one JSON object, or with
`--table` Markdown. Bounded in documents.
"""

import argparse
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from damages import DIFFERENT, MISSING, STALE, DamagedIndex
from icdc_api.job.modes import RunMode
from icdc_api.naming import name_physical_index
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.bench.changelog import CATALOG, start_session
from icdc_testing.bench.changelog_ranges import create_table
from icdc_testing.bench.cores import start_pinned_node
from icdc_testing.bench.findings import IndexWrites, Judgement
from icdc_testing.bench.machine import describe_machine, print_runs
from icdc_testing.bench.rates import MILLION
from icdc_testing.bench.spending import SpendingMeter
from icdc_testing.lake.lake import COPY_ON_WRITE
from icdc_testing.runs.harness import Harness
from resident_peaks import PeakWatch

INDEX = "proven"
KINDS = ("missing", "extra", "different")


def main() -> int:
    """Measure and print; 1 if what is found or repaired is not what was damaged."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=MILLION)
    parser.add_argument("--rounds", type=int, default=1, help="comparisons before the damage")
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--memory", default="1g", help="heap of Spark's JVM")
    parser.add_argument("--table", action="store_true", help="print Markdown")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icdc-bench-") as name:
        folder = Path(name)
        with start_pinned_node(folder / "opensearch") as node:
            spark = start_session(folder, memory=options.memory)
            try:
                proof = ProvenTable(spark, node, folder, options)
                problems = proof.run(options.rounds).list_problems()
            finally:
                spark.stop()
            about = {**describe_machine("pyspark"), "opensearch": node.version}
    result = {**about, "documents": options.documents, "heap": options.memory, "runs": proof.runs}
    print_runs(result, as_table=options.table)
    sys.stderr.write("".join(f"{problem}\n" for problem in problems))
    return 1 if problems else 0


class ProvenTable:
    """One exported table, its comparisons, and what each of them took."""

    def __init__(
        self, spark: SparkSession, node: OpenSearchNode, folder: Path, options: argparse.Namespace
    ) -> None:
        self._documents: int = options.documents
        self._meter, self._watch = SpendingMeter(node), PeakWatch(node.pid)
        self._spark = spark
        self._table = create_table(spark, self._documents, COPY_ON_WRITE, INDEX, options.files)
        entry = {"name": self._table, "index": INDEX, "identifierColumns": ["id"]}
        self._harness = Harness(spark, node.url, folder, [entry], name=INDEX)
        # Nobody writes through the alias.
        self._index = DamagedIndex(node.url, name_physical_index(INDEX, 1))
        self.runs: list[dict[str, Any]] = []

    def run(self, rounds: int) -> Judgement:
        """Compare, damage, compare, repair and compare; return what was found."""
        self._harness.sync()
        exported = self._index.read(STALE)
        self._spark.sql(
            f"update {CATALOG}.{self._table} set s0 = concat(s0, 'X') where id % 1000 = {STALE}"
        )
        self._harness.sync()
        for _ in range(rounds):
            self._ask(RunMode.VERIFY, "equal")
        self._index.damage(exported, extra=self._documents)
        self._ask(RunMode.VERIFY, "four documents differ")
        writes = self._index.count_writes()
        repaired = self._ask(RunMode.REPAIR, "repair")
        after = self._index.count_writes()
        self._ask(RunMode.VERIFY, "after the repair")
        *before, damaged, repair, last = (run["found"] for run in self.runs)
        return Judgement(
            damaged={
                "missing": [str(MISSING)],
                "extra": [str(self._documents)],
                "different": [str(STALE), str(DIFFERENT)],
            },
            before=before,
            during=(damaged, repair),
            after=last,
            repaired=repaired["repaired"] or 0,
            written=IndexWrites(
                indexed=after.indexed - writes.indexed, deleted=after.deleted - writes.deleted
            ),
        )

    def _ask(self, mode: RunMode, what: str) -> dict[str, Any]:
        answer: dict[str, Any] = {}

        def work() -> int:
            answer.update(self._harness.inspect(mode))
            return self._documents

        with self._watch.watch():
            spent = self._meter.measure(work)
        scale = MILLION / self._documents
        self.runs.append(
            {
                "comparison": what,
                "seconds": round(spent.seconds, 1),
                "client_CPU_s_per_million": round(spent.client * scale, 1),
                "of_it_Python": round(spent.python * scale, 1),
                "server_CPU_s_per_million": round(spent.server * scale, 1),
                **{f"{who}_MB": round(peak) for who, peak in asdict(self._watch.peaks).items()},
                "found": {kind: answer[kind]["samples"] for kind in KINDS},
            }
        )
        sys.stderr.write(f"{self.runs[-1]}\n")
        return answer


if __name__ == "__main__":
    raise SystemExit(main())
