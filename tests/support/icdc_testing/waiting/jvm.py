"""What a JVM holds: its live objects, its threads, its open files."""

import gc
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from icdc_cli.embedded.jdk import find_spark_jdk
from icdc_testing.waiting.wait import wait_until

SESSION = "org.apache.spark.sql.classic.SparkSession"
"""The class of a session of Spark."""
QUERY = "org.apache.spark.sql.execution.ui.SQLExecutionUIData"
"""The class of what Spark remembers of a query for its pages."""
_TOTAL = re.compile(r"^Total\s+\d+\s+(?P<bytes>\d+)\s*$", re.MULTILINE)
_CLASS = re.compile(r"^\s*\d+:\s+(?P<objects>\d+)\s+\d+\s+(?P<name>\S+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Heap:
    """The live objects of a JVM at one moment."""

    bytes: int
    """Of all of them."""
    objects: dict[str, int]
    """How many there are of each class."""


def read_heap(jvm: int) -> Heap:
    """Collect all garbage of a JVM, and return what is left."""
    jcmd = find_spark_jdk().home / "bin" / "jcmd"
    # Twice: cleaners let go what the first collection has found dead.
    for _ in range(2):
        text = subprocess.run(
            [str(jcmd), str(jvm), "GC.class_histogram"], check=True, capture_output=True, text=True
        ).stdout
    total = _TOTAL.search(text)
    assert total is not None, text[-500:]
    objects = {match["name"]: int(match["objects"]) for match in _CLASS.finditer(text)}
    return Heap(bytes=int(total["bytes"]), objects=objects)


class FileCounter:
    """Counts what Iceberg knows of files, in the JVM of a Spark of this process."""

    def __init__(self, spark: SparkSession, kind: str = "Data") -> None:
        """`kind` is that of the files: Data or Delete."""
        self._class = f"org.apache.iceberg.Generic{kind}File"
        # Not any JVM below this process: other tests of it have nodes and lakes of their own.
        self.jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
        """Its process."""

    def count(self) -> int:
        """Return the number of files in memory."""
        return read_heap(self.jvm).objects.get(self._class, 0)

    def wait_until_freed(self) -> int:
        """Return the number once nothing is left of what Python has let go."""
        gc.collect()
        return self.wait_until_settled()

    def wait_until_settled(self) -> int:
        """Return the number once the JVM knows what Python has let go by itself."""
        counts = [self.count()]

        def is_settled() -> bool:
            # py4j tells the JVM in a thread of its own what Python has let go.
            counts.append(self.count())
            return counts[-1] == counts[-2]

        wait_until(is_settled, "py4j has let all files go")
        return counts[-1]


def list_files(pid: int) -> list[str]:
    """Return the targets of all open files and sockets of a process."""
    targets = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            targets.append(str(entry.readlink()))
        except OSError:
            # Closed between the two calls.
            continue
    return targets


def count_threads(pid: int) -> int:
    """Return the number of threads of a process."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))
