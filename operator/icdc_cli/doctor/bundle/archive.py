"""Pack the files of a bundle as .tar.gz, below one folder."""

import gzip
import io
import os
import sys
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path

from icdc_api.errors import BadSpec

STDOUT = "-"
"""In place of a file: standard output."""
_FOLDER = "icdc-report"


def pack(files: Mapping[str, str]) -> bytes:
    """Return the archive."""
    packed = io.BytesIO()
    now = int(time.time())
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=now) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for path, text in files.items():
            data = text.encode(errors="replace")
            entry = tarfile.TarInfo(f"{_FOLDER}/{path}")
            entry.size, entry.mtime, entry.mode = len(data), now, 0o644
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def write(data: bytes, where: str) -> None:
    """Write the archive to a new file that only its owner reads, or to standard output.

    BadSpec for a terminal, and for a file that exists or cannot be written.
    """
    if where == STDOUT:
        if sys.stdout.isatty():
            raise BadSpec("-o -: the archive is no text for a terminal; send it into a file")
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        # Never over another file: a name that is typed wrongly must cost nothing.
        handle = os.open(Path(where), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise BadSpec(f"-o {where}: {error.strerror}") from error
    with os.fdopen(handle, "wb") as file:
        file.write(data)
