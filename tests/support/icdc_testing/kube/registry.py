"""A registry of images and charts on loopback, which everybody may write to. Knows no release."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from icdc_testing.kube import binaries
from icdc_testing.kube.server_process import LOOPBACK, Program

_START_SECONDS = 30.0
_SERVES = re.compile(r"serving on port (\d+)")


@contextmanager
def open_registry() -> Iterator[str]:
    """Yield the address of an empty registry; afterwards what was pushed is gone.

    Blobs are on disk. While a layer is pushed, the registry has it in memory, too.
    """
    with tempfile.TemporaryDirectory(prefix="icdc-registry-") as folder:
        blobs = Path(folder) / "blobs"
        blobs.mkdir()
        serve = ["registry", "serve", "--address", f"{LOOPBACK}:0", "--disk", str(blobs)]
        server = Program.start(
            binaries.ensure_program("crane"),
            serve,
            Path(folder),
            # So that Go returns the memory of layers that were pushed.
            environment={"GOMEMLIMIT": "256MiB"},
        )
        try:
            server.wait_until(
                lambda: bool(_SERVES.search(server.log.read_text())),
                "it serves",
                seconds=_START_SECONDS,
            )
            (port,) = _SERVES.findall(server.log.read_text())
            yield f"{LOOPBACK}:{port}"
        finally:
            server.kill()
