"""A local lake to write to: a Spark SQL process over a folder, for the demo and for tests.

    run_sql("INSERT …")  → one line of JSON to `lakeshell`'s standard input
                         ← one line of JSON from its standard output, when the commit is done
    its log              standard error, to lake.log: what Spark prints must not get between answers

It is somebody else than the application: another process with its own JVM, whose commits the
application must notice by itself. What a user gains: `icdc demo` shows all of it on a host that has
neither a lake nor a catalog. It needs no server: the catalog is a SQLite file (`jdbc`).
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from icdc_api.errors import Bug, SourceUnavailable
from icdc_cli.embedded import jars, jdk

STOP_SECONDS = 20.0
"""For Spark to close down after the end of its input, before it is killed."""
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Statements are small: a JVM that starts quickly is worth more than one that peaks high.

The first compiler alone gets room for 48 MB of code, which Spark fills: from then on the JVM looks
for code to throw away, and compiles again what it needs after all.
"""
if sys.platform == "linux":
    # Hadoop starts `chmod` for each local file that it makes; this way takes half as long.
    QUICK_START += " -Djdk.lang.Process.launchMechanism=VFORK"


class LakeError(Bug):
    """A statement was refused by Spark; the message is Spark's."""


class LakeProcess:
    """A context manager around the process; `run_sql` runs one statement."""

    def __init__(
        self,
        properties: dict[str, str],
        *,
        folder: Path,
        catalog: str = "lake",
        memory: str = "1g",
        environment: Mapping[str, str] | None = None,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        """Prepare the process; it gets `environment` in addition to the variables of this one."""
        self.properties = properties
        self.catalog = catalog
        self._folder = folder
        self._memory = memory
        self._environment = dict(environment or {})
        self._stop_seconds = stop_seconds
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        self.wait_ready()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def log_file(self) -> Path:
        """Path of the log of Spark itself."""
        return self._folder / "lake.log"

    def start(self) -> None:
        """Start the process without waiting until it is ready."""
        self._folder.mkdir(parents=True, exist_ok=True)
        conf = {
            # First on the class path, as in the application: an archive of class data fits both.
            "spark.driver.extraClassPath": os.pathsep.join(
                map(str, jars.fetch_jars(jars.SPARK_SET))
            ),
            "spark.driver.memory": self._memory,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": QUICK_START,
            "spark.ui.enabled": "false",
            # The process has two cores, by local[2]; 200 tasks would cost more than the rows.
            "spark.sql.shuffle.partitions": "2",
            "spark.local.dir": str(self._folder / "spark"),
        }
        command = [sys.executable, "-m", "icdc_spark.process.lakeshell", "--catalog", self.catalog]
        for key, value in self.properties.items():
            command += ["--property", f"{key}={value}"]
        for key, value in conf.items():
            command += ["--conf", f"{key}={value}"]
        # Spark's launcher takes JAVA_HOME before the PATH, whose `java` may be too new.
        java = {"JAVA_HOME": str(jdk.find_spark_jdk().home)}
        environment = {**jdk.without_other_spark(os.environ), **java, **self._environment}
        with self.log_file.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                cwd=self._folder,
            )

    def wait_ready(self) -> None:
        """Wait until statements are accepted."""
        self._receive()

    def run_sql(self, statement: str) -> list[dict[str, Any]]:
        """Run one statement; return its rows as dictionaries. LakeError has Spark's message."""
        process = self._get_process()
        assert process.stdin is not None
        # As JSON: a statement has line breaks of its own, and a line is a request.
        process.stdin.write(json.dumps({"sql": statement}) + "\n")
        process.stdin.flush()
        answer = self._receive()
        if "error" in answer:
            raise LakeError(str(answer["error"]))
        rows: list[dict[str, Any]] = answer["rows"]
        return rows

    def read_head(self, table: str) -> str | None:
        """Return the id of the table's current snapshot on main; None for a table without one."""
        query = f"SELECT snapshot_id FROM {table}.refs WHERE name = 'main'"
        rows = self.run_sql(query)
        return str(rows[0]["snapshot_id"]) if rows else None

    def stop(self) -> None:
        """End the process: by the end of its input, or by SIGKILL after `stop_seconds`."""
        # So that a second call does nothing: the demo stops it early, and once more at its end.
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        # Its end lets Spark close down by itself, which is when a class-data archive is written.
        process.stdin.close()
        try:
            process.wait(self._stop_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _get_process(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise Bug("the lake was not started")
        return self._process

    def _receive(self) -> dict[str, Any]:
        """Return the next answer. SourceUnavailable where the process has ended instead.

        Without a time limit: a MERGE takes what it takes, and a process that dies ends its output.
        """
        process = self._get_process()
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SourceUnavailable(f"the lake's Spark process ended; see {self.log_file}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def build_jdbc_catalog(database: Path, warehouse: Path) -> dict[str, str]:
    """Return the properties of a catalog in a SQLite file, which pyiceberg can read as well."""
    return {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{database}",
        "warehouse": str(warehouse),
        # With the column `iceberg_type` from the start: to pyiceberg a catalog without it is one of
        # an old schema.
        "jdbc.schema-version": "V1",
    }
