"""What a whole export takes, by the layout of the table's files. `make bench-export`.

A table of 20 columns is exported from ten layouts, each by a run of its own in processes as `icdc
run` starts them, and by a job as a user would write it: Spark with `parallel_bulk`
(`icdc_testing.bench.plain_export`). Both have the same heap and two tasks at a time. The start,
until Spark has a session, is measured apart. OpenSearch has one core and the client has the other.
Fails where an index has another number of documents than the table has rows. Prints one JSON
object, or with `--table` Markdown. Bounded in rows.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from export_layouts import LAYOUTS, TABLE, create_table
from icdc_cli.embedded.lake import LakeProcess, build_jdbc_catalog
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.bench.cores import start_pinned_node
from icdc_testing.bench.machine import describe_machine, print_runs
from icdc_testing.bench.many_tables import FollowedTables
from icdc_testing.bench.rates import MILLION
from icdc_testing.bench.spending import settle_index
from icdc_testing.target import node_calls
from icdc_testing.target.oracle import request
from icdc_testing.waiting.process_cpu import sum_cpu_seconds

INDEX = "exported"
OURS, PLAIN = "ours", "plain job"


@dataclass(frozen=True, kw_only=True)
class Export:
    """One export: its start, until Spark has a session, and what follows."""

    start_seconds: float
    start_cpu: float
    seconds: float
    cpu: float
    """CPU seconds of the client after its start."""
    server: float
    """CPU seconds of OpenSearch, until nothing is merged any more."""


class Stopwatch:
    """Times an export in processes of its own, in two parts."""

    def __init__(self, node: OpenSearchNode) -> None:
        self._node, self._began = node, time.monotonic()
        self._server = sum_cpu_seconds(node.pid)
        self._start = (0.0, 0.0)

    def note_start(self, client: int) -> None:
        """Note that Spark has a session; `client` is the first process of the client."""
        self._start = time.monotonic() - self._began, sum_cpu_seconds(client)

    def finish(self, client: int) -> Export:
        """Return what was measured, once the index is complete."""
        seconds, cpu = time.monotonic() - self._began, sum_cpu_seconds(client)
        settle_index(self._node.url, INDEX)
        return Export(
            start_seconds=self._start[0],
            start_cpu=self._start[1],
            seconds=seconds - self._start[0],
            cpu=cpu - self._start[1],
            server=sum_cpu_seconds(self._node.pid) - self._server,
        )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--layouts", nargs="*", choices=LAYOUTS, default=list(LAYOUTS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--heap", default="2g", help="of the client's JVM")
    parser.add_argument("--table", action="store_true", help="print Markdown")
    options = parser.parse_args()
    runs = list[dict[str, Any]]()
    with tempfile.TemporaryDirectory(prefix="icdc-bench-") as name:
        folder = Path(name)
        (folder / "lake" / "warehouse").mkdir(parents=True)
        catalog = build_jdbc_catalog(folder / "lake" / "catalog.db", folder / "lake" / "warehouse")
        with (
            start_pinned_node(folder / "opensearch") as node,
            LakeProcess(catalog, folder=folder / "lake", memory="2g") as lake,
        ):
            lake.run_sql("create namespace lake.shop")
            bench = Exporter(node, folder, catalog, options.heap)
            for layout in options.layouts:
                rows, files = create_table(lake, LAYOUTS[layout], options.rows)
                if not runs:
                    # OpenSearch compiles its code meanwhile, which would be told as of the first.
                    bench.run_plain(rows)
                for _ in range(options.rounds):
                    for who, run in ((OURS, bench.run_ours), (PLAIN, bench.run_plain)):
                        taken = _describe(who, run(rows), rows)
                        runs.append({"layout": layout, "files": files, **taken})
                        sys.stderr.write(f"{runs[-1]}\n")
                lake.run_sql(f"drop table lake.{TABLE} purge")
            about = {**describe_machine("pyspark", "opensearch-py"), "opensearch": node.version}
    result = {**about, "rows": options.rows, "heap": options.heap, "runs": runs}
    print_runs(result, as_table=options.table)
    return 0


class Exporter:
    """Exports the table of a catalog into one node, each time anew."""

    def __init__(
        self, node: OpenSearchNode, folder: Path, catalog: dict[str, str], heap: str
    ) -> None:
        self._node, self._folder, self._catalog, self._heap = node, folder, catalog, heap

    def run_ours(self, rows: int) -> Export:
        """Export by a run of the application, until it has nothing left to do."""
        with self._make_room() as folder:
            watch = Stopwatch(self._node)
            with FollowedTables(
                folder, self._node.url, self._catalog, 1, heap=self._heap, entry={"index": INDEX}
            ) as run:
                run.await_session()
                watch.note_start(run.find_driver())
                run.catch_up()
                return self._finish(watch, run.find_driver(), rows)

    def run_plain(self, rows: int) -> Export:
        """Export by the plain job."""
        command = [sys.executable, "-m", "icdc_testing.bench.plain_export"]
        command += ["--url", self._node.url, "--table", TABLE, "--index", INDEX]
        command += ["--catalog", json.dumps(self._catalog), "--memory", self._heap]
        with self._make_room():
            watch = Stopwatch(self._node)
            with subprocess.Popen(
                command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as job:
                _await(job, "started")
                watch.note_start(job.pid)
                _answer(job)
                _await(job, "written")
                export = self._finish(watch, job.pid, rows)
                _answer(job)
                return export

    def _finish(self, watch: Stopwatch, client: int, rows: int) -> Export:
        export = watch.finish(client)
        counted = int(request(f"{self._node.url}/{INDEX}/_count")["count"])
        assert counted == rows, f"{counted} documents of {rows} rows"
        return export

    @contextmanager
    def _make_room(self) -> Iterator[Path]:
        """Have a folder for a run, and afterwards nothing of it in OpenSearch."""
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            yield Path(folder)
            node_calls.clean_indices(self._node.url)


def _await(job: subprocess.Popen[str], word: str) -> None:
    said = _require(job.stdout).readline().strip()
    assert said == word, f"the job ended instead of being {word}"


def _answer(job: subprocess.Popen[str]) -> None:
    pipe = _require(job.stdin)
    pipe.write("\n")
    pipe.flush()


def _require(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def _describe(who: str, export: Export, rows: int) -> dict[str, Any]:
    return {
        "who": who,
        "start_s": round(export.start_seconds, 1),
        "start_CPU_s": round(export.start_cpu, 1),
        "export_s": round(export.seconds, 1),
        "documents_a_second": round(rows / export.seconds),
        "client_CPU_s_per_million": round(export.cpu * MILLION / rows, 1),
        "server_CPU_s_per_million": round(export.server * MILLION / rows, 1),
    }


if __name__ == "__main__":
    raise SystemExit(main())
