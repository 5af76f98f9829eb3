"""Finds the damaged file among those that a failed job has read.

What Parquet, ORC and Puffin raise on a damaged file seldom names it. So the files are looked at
once a job has failed, and only then: their lengths against the manifests, and the marks at both
ends that every file of a format has. It must not know why they were read.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from icdc_spark.iceberg.jvm.errors import FOREIGN_ERRORS
from icdc_spark.iceberg.table.tables import IcebergTable

MAX_FILES = 1_000
"""Files looked at for one failure: each takes two short requests."""
SHOWN_FILES = 3
"""Files that a message names where the damaged one is not known."""

_HEAD = {"PARQUET": b"PAR1", "ORC": b"ORC", "AVRO": b"Obj\x01", "PUFFIN": b"PFA1"}
_TAIL = {"PARQUET": b"PAR1", "PUFFIN": b"PFA1"}
_ENCRYPTED = b"PARE"


def damage(table: IcebergTable, groups: Iterable[Any]) -> str | None:
    """The first damaged file of Java lists of `FileScanTask`, and what is wrong with it.

    None where none is seen to be damaged, or where the files cannot be looked at.
    """
    io, seen = table.java.io(), set[str]()
    try:
        for file in _files(table, groups):
            location = str(file.location())
            if location in seen:
                continue
            seen.add(location)
            if len(seen) > MAX_FILES:
                return None
            problem = _problem(io.newInputFile(location), file)
            if problem:
                return f"the file {location} is damaged: {problem}"
    except FOREIGN_ERRORS:
        # Whatever keeps us from looking is the failure itself, which is told as it is.
        return None
    return None


def suspects(table: IcebergTable, groups: Iterable[Any]) -> str:
    """Which files it may be, where none shows its damage from outside."""
    found = list(dict.fromkeys(str(file.location()) for file in _files(table, groups)))
    if len(found) == 1:
        return f"it is {found[0]}"
    more = f" and {len(found) - SHOWN_FILES} more" if len(found) > SHOWN_FILES else ""
    return (
        f"it is among the files read ({', '.join(found[:SHOWN_FILES])}{more}), and the log of "
        "the executors says which one"
    )


def _files(table: IcebergTable, groups: Iterable[Any]) -> Iterator[Any]:
    for group in groups:
        for task in table.bridge.each(group):
            yield task.file()
            yield from table.bridge.each(task.deletes())


def _problem(found: Any, file: Any) -> str:
    length, wanted = int(found.getLength()), int(file.fileSizeInBytes())
    if length != wanted:
        return f"it has {length} bytes, and by its manifest {wanted}"
    kind = str(file.format())
    stream = found.newStream()
    try:
        head, tail = _HEAD.get(kind, b""), _TAIL.get(kind, b"")
        start = bytes(stream.readNBytes(len(head)))
        stream.seek(length - len(tail))
        end = bytes(stream.readNBytes(len(tail)))
    finally:
        stream.close()
    if start in (head, _ENCRYPTED) and end in (tail, _ENCRYPTED):
        return ""
    return f"it does not begin and end as a file of the format {kind} does"
