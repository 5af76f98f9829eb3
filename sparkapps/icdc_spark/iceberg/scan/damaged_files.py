"""Find the damaged file among those that a failed job has read.

The errors of Parquet, ORC and Puffin seldom name the file. So after a failure, and only then, the
files are checked: their length against the manifest, and the magic bytes at both ends. This module
must not know why the files were read.

Example: a job that read these files has failed.

    file        length   in manifest   starts, ends       result
    a.parquet   4096     4096          PAR1, PAR1         in order
    b.parquet   1000     4096          -                  damaged: the length differs
    c.parquet   4096     4096          PAR1, zeros        damaged, not reached: b is reported
    d.parquet   4096     4096          PAR1, 2 of 4 bytes in order: the store answers in part
"""

from collections.abc import Iterable, Iterator
from typing import Any

from icdc_api.errors import FileUnreadable, IcdcError, SourceUnavailable
from icdc_api.redaction import hide_partition_values
from icdc_spark.iceberg.jvm.source_errors import FOREIGN_ERRORS
from icdc_spark.iceberg.table.tables import IcebergTable

MAX_FILES = 1_000
"""Files that are checked for one failure: each takes two short requests."""
SHOWN_FILES = 3
"""Files that a message names where the damaged one is not known."""

_FIRST_BYTES = {"PARQUET": b"PAR1", "ORC": b"ORC", "AVRO": b"Obj\x01", "PUFFIN": b"PFA1"}
_LAST_BYTES = {"PARQUET": b"PAR1", "PUFFIN": b"PFA1"}
_END_BYTES = 4
"""Bytes that are read at the end of a file, whatever its format."""
_ENCRYPTED = b"PARE"
"""Of a Parquet file with an encrypted footer, at both ends."""


def find_damage(table: IcebergTable, groups: Iterable[Any]) -> IcdcError | None:
    """Return an error that names the first damaged file of Java lists of `FileScanTask`.

    SourceUnavailable where the store gives less of a file than the file has. None if no file shows
    damage, if there are too many (`MAX_FILES`), or if they cannot be opened.
    """
    io, seen = table.java.io(), set[str]()
    try:
        for file in _list_files(table, groups):
            location = str(file.location())
            # A delete file comes once for each data file that it applies to.
            if location in seen:
                continue
            seen.add(location)
            if len(seen) > MAX_FILES:
                return None
            shown = f"{table.name}: the file {hide_partition_values(location)}"
            problem = _check_file(io.newInputFile(location), file, shown)
            if problem:
                return FileUnreadable(f"{shown} is damaged: {problem}")
    except SourceUnavailable as error:
        return error
    except FOREIGN_ERRORS:
        # The check fails for the same reason as the job then, and that reason is reported anyway.
        return None
    return None


def name_suspects(table: IcebergTable, groups: Iterable[Any]) -> str:
    """Return a clause that names the files that were read, for when none shows its damage."""
    locations = dict.fromkeys(str(file.location()) for file in _list_files(table, groups))
    files = [hide_partition_values(location) for location in locations]
    if len(files) == 1:
        return f"it is {files[0]}"
    more = f" and {len(files) - SHOWN_FILES} more" if len(files) > SHOWN_FILES else ""
    return (
        f"it is one of the files that were read ({', '.join(files[:SHOWN_FILES])}{more}), and the "
        "log of the executors says which one"
    )


def _list_files(table: IcebergTable, groups: Iterable[Any]) -> Iterator[Any]:
    """Yield the data files and the delete files of the tasks; one may come more than once."""
    for group in groups:
        for task in table.bridge.list_elements(group):
            yield task.file()
            yield from table.bridge.list_elements(task.deletes())


def _check_file(stored: Any, file: Any, shown: str) -> str:
    """Compare a Java input file with its `ContentFile`; empty if it is in order.

    SourceUnavailable where it has the right length, and fewer bytes come; `shown` names the file.
    """
    # The length first: it needs no stream, and tells a file that was cut off or written over.
    length, expected = int(stored.getLength()), int(file.fileSizeInBytes())
    if length != expected:
        return f"it has {length} bytes, but its manifest says {expected}"
    file_format = str(file.format())
    stream = stored.newStream()
    try:
        first, last = _FIRST_BYTES.get(file_format, b""), _LAST_BYTES.get(file_format, b"")
        start = bytes(stream.readNBytes(len(first)))
        # Of ORC and Avro too, which end in no fixed bytes: they show whether the end comes.
        asked = min(_END_BYTES, length)
        stream.seek(length - asked)
        end = bytes(stream.readNBytes(asked))
    finally:
        stream.close()
    if len(end) < asked or len(start) < min(len(first), length):
        raise SourceUnavailable(
            f"the store returned only a part of {shown}: the file has {length} bytes, and of the "
            f"last {asked} it returned {len(end)}"
        )
    if start in (first, _ENCRYPTED) and end.endswith((last, _ENCRYPTED)):
        return ""
    return f"it does not begin and end as a file of the format {file_format} does"
