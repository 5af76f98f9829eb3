"""The folder of an embedded node: which version wrote it, and whether a node runs on it now.

    node.pid  node.port  node.kept   answers   find_running() returns
    -         -          -           -         None: never started, or ended in order
    4101      -          -           -         None: still starts
    4101      40213      -           yes       a node that ends with its starter
    4101      40213      there       yes       a node that stays: the next start joins it
    4101      40213      any         no        None: killed, and its files were left behind

What a user gains: a node is never started on data of a version that it cannot read, nor beside one
that runs. Holds the file names that the Java launcher and the Python side agree on. Starts nothing.
"""

import http.client
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from icdc_api.errors import Submission
from icdc_cli.embedded.jars import OPENSEARCH_VERSIONS

PID = "node.pid"
"""Process id of the JVM; the Java launcher writes it once the node has started."""
PORT = "node.port"
"""HTTP port, written after PID: who finds it may ask the node."""
VERSION = "node.version"
"""OpenSearch release that wrote `data`; stays when the node ends."""
KEEP = "node.kept"
"""There while a node runs that outlives its starter (`--keep`)."""
SCRATCH = "scratch"
"""Temporary files of the JVM, removed before each start."""

_TAIL_BYTES = 64 * 1024
_ANSWER_SECONDS = 6.0
"""A second more than the 5 that `is_healthy` gives the node to find its shards, so that a node
which waits for them says so itself and is not taken for dead."""


@dataclass(frozen=True)
class Running:
    """A node that answers."""

    pid: int
    """Process id of its JVM."""
    url: str
    """Where it answers, without a slash at the end."""
    version: str
    """OpenSearch release, one of OPENSEARCH_VERSIONS."""
    stays: bool
    """Started to outlive the process that started it."""


def prepare(data_dir: Path, version: str, *, keep: bool = False) -> None:
    """Prepare the folder for a start: remove files of the last run, record the version."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        forget(data_dir)
        # A JVM that was killed leaves there what JNA has unpacked for it.
        shutil.rmtree(data_dir / SCRATCH, ignore_errors=True)
        for folder in ("config", "data", SCRATCH):
            (data_dir / folder).mkdir(exist_ok=True)
        # Before the start: even a node that fails half-way may have written its data in the new
        # format, which an older release does not read.
        (data_dir / VERSION).write_text(version, encoding="utf-8")
        if keep:
            (data_dir / KEEP).touch()
    except OSError as exc:
        raise Submission(
            f"The folder of the embedded OpenSearch node, {data_dir}, cannot be written: "
            f"{exc.strerror}. Set --state-dir of icdc run, or TMPDIR elsewhere, to another folder."
        ) from exc


def forget(data_dir: Path) -> None:
    """Remove the files that a killed node could not remove itself."""
    for name in (PID, PORT, KEEP):
        (data_dir / name).unlink(missing_ok=True)


def read_port(data_dir: Path) -> int:
    """Read the HTTP port of the node on this folder; 0 while there is none."""
    return _read_number(data_dir / PORT)


def read_version(data_dir: Path) -> str | None:
    """Read which version wrote the folder; None if it is new, Submission if it is unknown here."""
    try:
        version = (data_dir / VERSION).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    # Of a later or an earlier package than this one: not to be guessed at.
    if version not in OPENSEARCH_VERSIONS:
        raise Submission(
            f"{data_dir} was written by OpenSearch {version!r}, which cannot be embedded here."
        )
    return version


def find_running(data_dir: Path) -> Running | None:
    """Return the node that runs on this folder and answers; None if there is none."""
    pid, at = _read_number(data_dir / PID), read_port(data_dir)
    version = read_version(data_dir)
    # A node that was killed leaves both files, and its process id may be another's by now: the
    # answer on the port is what counts, and `_is_alive` only spares a time-out.
    if not pid or not at or version is None or not _is_alive(pid) or not is_healthy(at):
        return None
    return Running(pid, f"http://127.0.0.1:{at}", version, (data_dir / KEEP).exists())


def is_healthy(at: int) -> bool:
    """Return whether an embedded node answers on this port of loopback, with its shards active."""
    connection = http.client.HTTPConnection("127.0.0.1", at, timeout=_ANSWER_SECONDS)
    try:
        # Yellow: one node never places a replica, so an index with one never turns green.
        connection.request("GET", "/_cluster/health?wait_for_status=yellow&timeout=5s")
        answer = connection.getresponse()
        health = json.loads(answer.read())
    except (OSError, http.client.HTTPException, json.JSONDecodeError):
        return False
    finally:
        connection.close()
    # The name, because the port of a killed node may by now belong to somebody else's node.
    return answer.status == 200 and health.get("cluster_name") == "icdc-embedded"


def read_tail(log: Path) -> str:
    """Return the end of a log file, for an error message."""
    try:
        return log.read_bytes()[-_TAIL_BYTES:].decode("utf-8", errors="replace")
    except FileNotFoundError:
        return "(no log)"


def _read_number(file: Path) -> int:
    try:
        return int(file.read_text(encoding="utf-8"))
    # ValueError: an empty file, after the host has lost power. Such a node is not there any more.
    except (FileNotFoundError, ValueError):
        return 0


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)  # signal 0 only asks whether the process exists
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it exists, and another user owns it
    return True
