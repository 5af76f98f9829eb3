"""What a JVM holds: its live objects, its threads, its open files."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from icdc_cli.embedded.jdk import find_spark_jdk

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
