"""Damage to the files of a table: what is found, how it is damaged, and how it is put back."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from icdc_testing.tables.scenarios import ScenarioTable

Find = Callable[[ScenarioTable], str]
How = Callable[[bytes], bytes | None]


NEEDLE = b"needle"
"""Stands in a row of every file that `change_byte` damages."""


def find_file(location: str) -> Path:
    """Return the file behind a location of the test's catalog."""
    return Path(unquote(urlsplit(location).path))


def find_by(query: str) -> Find:
    """Return a function that finds the one location of a query's result.

    In the query, `{first}` and `{last}` stand for the oldest and the newest snapshot.
    """

    def find(stage: ScenarioTable) -> str:
        snapshots = stage.list_snapshots()
        text = query.replace("{last}", str(snapshots[-1])).replace("{first}", str(snapshots[0]))
        ((location,),) = stage.sql(text)
        return str(location)

    return find


ADDED = find_by(
    "select data_file.file_path from {t}.entries where status = 1 and snapshot_id = {last}"
)
REMOVED = find_by(
    "select data_file.file_path from {t}.entries where status = 2 and snapshot_id = {last}"
)
DELETES = find_by("select file_path from {t}.delete_files")
MANIFEST = find_by(
    "select path from {t}.manifests where added_snapshot_id = {last} and added_data_files_count > 0"
)
DELETE_MANIFEST = find_by("select path from {t}.manifests where content = 1")
OLD_MANIFEST = find_by("select path from {t}.all_manifests where reference_snapshot_id = {first}")
LIST = find_by("select manifest_list from {t}.snapshots where snapshot_id = {last}")
OLD_LIST = find_by("select manifest_list from {t}.snapshots where snapshot_id = {first}")
METADATA = find_by(
    "select file from {t}.metadata_log_entries order by timestamp desc, file desc limit 1"
)


def find_version_hint(stage: ScenarioTable) -> str:
    """Return the file in which a Hadoop catalog keeps the number of the newest metadata."""
    return str(find_file(METADATA(stage)).parent / "version-hint.text")


def lose(_: bytes) -> None:
    """Return None: nothing of the file is left."""


def cut(content: bytes) -> bytes:
    """Return the first half, as a writer leaves it that died midway."""
    return content[: len(content) // 2]


def garble(content: bytes) -> bytes:
    """Return something else of the same length."""
    return b"\x07garbage"[:8] * (len(content) // 8) + b"\x07" * (len(content) % 8)


def raise_version(content: bytes) -> bytes:
    """Return metadata of a format version that nobody has written yet."""
    return re.sub(rb'("format-version"\s*:\s*)\d', rb"\g<1>9", content)


def change_byte(content: bytes) -> bytes:
    """Return it with another value in the first page of a Parquet file that is not compressed."""
    at = content.index(NEEDLE) + 1
    return content[:at] + bytes([content[at] ^ 2]) + content[at + 1 :]


class Damage:
    """One file of a table that is damaged, and later put back."""

    def __init__(self, find: Find, how: How) -> None:
        self._find, self._how = find, how
        self._saved: tuple[Path, bytes] | None = None

    def do(self, stage: ScenarioTable) -> None:
        """Damage the file, which is `{file}` in the messages of the scenario from here on."""
        location = self._find(stage)
        path = find_file(location)
        content = path.read_bytes()
        self._saved = path, content
        path.unlink()
        made = self._how(content)
        if made is not None:
            path.write_bytes(made)
        sizes = {"whole": str(len(content)), "left": str(len(made or b""))}
        number = "".join(filter(str.isdigit, path.stem))
        stage.names = {"file": location, **sizes, "folder": str(path.parent), "number": number}

    def undo(self, _: ScenarioTable) -> None:
        """Put the file back as it was."""
        assert self._saved is not None, "nothing was damaged"
        path, content = self._saved
        path.write_bytes(content)


@contextmanager
def silence_file(location: str) -> Iterator[None]:
    """Whoever opens the file waits, as for a store that does not answer."""
    file = find_file(location)
    stored = file.rename(file.with_name(f"{file.name}.stored"))
    os.mkfifo(file)
    try:
        yield
    finally:
        # Those who wait find the end of the file: nothing else would wake them.
        pipe = os.open(file, os.O_RDWR | os.O_NONBLOCK)
        stored.replace(file)
        os.close(pipe)
