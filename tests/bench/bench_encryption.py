"""What encrypting a run costs: a shuffle with and without it. `make bench-encryption`.

Prints one JSON object, or with `--table` Markdown. In place of a cluster Spark starts two executors
as processes, which talk over loopback with the properties of runs (`spec.spark.encryption`). One
application with and one without encryption stand side by side and shuffle the same rows in turn.
CPU is that of driver and executors together.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from icdc_cli.embedded.jdk import find_spark_jdk
from icdc_operator.manifests.application import ENCRYPTION_CONF
from icdc_testing.bench.machine import describe_machine
from icdc_testing.waiting.process_cpu import sum_cpu_seconds

SECRET = {"spark.authenticate.secret": "of-this-bench-alone"}


class Shuffler:
    """An application of its own, as a process, that shuffles when it is told to."""

    def __init__(self, folder: Path, rows: int, *, encrypted: bool) -> None:
        folder.mkdir()
        self._child = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(rows), str(int(encrypted))],
            env={
                **os.environ,
                "JAVA_HOME": str(find_spark_jdk().home),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_HOME": str(Path(pyspark.__file__).parent),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_LOCAL_DIRS": str(folder),
                "SPARK_WORKER_DIR": str(folder / "work"),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def shuffle(self) -> dict[str, float]:
        """Seconds of the clock and of processors that one shuffle took."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        cpu, since = sum_cpu_seconds(self._child.pid), time.monotonic()
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        assert self._child.stdout.readline() == "done\n"
        return {
            "seconds": time.monotonic() - since,
            "cpu_seconds": sum_cpu_seconds(self._child.pid) - cpu,
        }

    def close(self) -> None:
        """End the application."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait(60)


def main() -> int:
    """Measure and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--table", action="store_true", help="print Markdown")
    parser.add_argument("--serve", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        _serve(options.serve[0], encrypted=bool(options.serve[1]))
        return 0
    with tempfile.TemporaryDirectory(prefix="icdc-bench-") as folder:
        result = _measure(Path(folder), options)
    sys.stdout.write(
        (_format_markdown(result) if options.table else json.dumps(result, indent=1)) + "\n"
    )
    return 0


def _serve(rows: int, *, encrypted: bool) -> None:
    """Shuffle once for each line of the standard input."""
    conf = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # A block that is on the same host is read from the disk otherwise, past the network.
        "spark.shuffle.readHostLocalDisk": "false",
        **({**ENCRYPTION_CONF, **SECRET} if encrypted else {}),
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    # Hexadecimal digits of hashes: little of it is saved by compression.
    text = "concat(sha2(cast(id as string), 512), sha2(cast(-id as string), 512)) as text"
    for _ in sys.stdin:
        shuffled = session.range(rows).selectExpr("id", text).repartition(8, "id")
        shuffled.selectExpr("sum(id)", "max(text)").collect()
        sys.stdout.write("done\n")
        sys.stdout.flush()
    session.stop()


def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    plain = Shuffler(folder / "plain", options.rows, encrypted=False)
    encrypted = Shuffler(folder / "encrypted", options.rows, encrypted=True)
    both = {"plain": plain, "encrypted": encrypted}
    by_name: dict[str, list[dict[str, float]]] = {name: [] for name in both}
    try:
        for number in range(2 + options.rounds):
            for name, measured in both.items():
                once = measured.shuffle()
                if number >= 2:
                    by_name[name].append(once)
    finally:
        plain.close()
        encrypted.close()
    return {
        **describe_machine("pyspark"),
        "rows": options.rows,
        "rounds": options.rounds,
        **{
            name: {key: statistics.median(round_[key] for round_ in rounds) for key in rounds[0]}
            for name, rounds in by_name.items()
        },
    }


def _format_markdown(result: dict[str, Any]) -> str:
    lines = ["| shuffle | s | CPU s |", "|---|---|---|"]
    for name in ("plain", "encrypted"):
        lines.append(
            f"| {name} | {result[name]['seconds']:.2f} | {result[name]['cpu_seconds']:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
