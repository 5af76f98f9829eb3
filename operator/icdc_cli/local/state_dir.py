"""The state directory of a local run: where the resource with its status is stored.

Why a lock: two runners on one directory would each take the other's run for a stray and stop it, in
turns for ever. In a cluster an election sees to that; here the kernel does.

    icdc run A    open, flock: granted    writes its process id    works
    icdc run B    open, flock: refused    reads the id of A        "in use by … (process 4101)"
    A is killed   the kernel frees it     B: granted               finds A's runs by their markers

It stands in place of the API server: one runner at a time, each write whole or not at all.
The truth about progress is in OpenSearch's state document; losing this directory loses history,
nothing else. This module does not interpret specs or statuses.

    pipeline.yaml    the resource with its status, as `kubectl get -o yaml` would show it
    lock             held by the runner while it lives; holds its process id
    runs/<run>/      request, report, log and process of one run
    opensearch/      data of the embedded node, when the pipeline asks for one
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from icdc_api import errors
from icdc_cli.local import files

_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""The one in C, if PyYAML has it: the status of 500 tables is written again with each progress."""

STATE_HOME = Path(".icdc")
"""Below the working directory; holds one state directory for each pipeline."""


class StateDir:
    """A context manager: entering takes the lock, leaving frees it."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._lock: int | None = None

    @property
    def resource_path(self) -> Path:
        """The resource with its status."""
        return self.root / "pipeline.yaml"

    @property
    def runs_path(self) -> Path:
        """One directory per run."""
        return self.root / "runs"

    @property
    def node_path(self) -> Path:
        """Home of the embedded OpenSearch node."""
        return self.root / "opensearch"

    def __enter__(self) -> Self:
        """Lock the directory; BadSpec when another runner holds it or it cannot be written."""
        try:
            self.runs_path.mkdir(parents=True, exist_ok=True)
            # Without O_TRUNC, which would wipe the id of the holder. O_CLOEXEC: a lock belongs to
            # the open file, and a driver that inherited it would hold it after we have ended.
            descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise errors.BadSpec(
                f"--state-dir {self.root} cannot be used: {error.strerror}"
            ) from error
        try:
            # The kernel frees the lock with the process, so a killed runner leaves none behind.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise errors.BadSpec(
                f"--state-dir {self.root} is in use by another icdc run (process {holder}); "
                "stop that one, or give another directory to a pipeline of another name"
            ) from error
        # Only now is the file ours; a loser must be able to read the holder's process id.
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._lock = descriptor
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._lock is not None:
            # Frees the lock. The file stays: to unlink it would let a third runner lock a new one
            # while a second, which has the old one open, gets that.
            os.close(self._lock)
            self._lock = None

    @contextlib.contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Raise errors of files in the directory as ours: somebody may remove it while it is used.

        DiskFull where no space is left, else BadSpec.
        """
        try:
            yield
        except OSError as error:
            # Not of others, such as of standard output, whose reader may have gone away.
            if not Path(os.fsdecode(error.filename or "")).is_relative_to(self.root):
                raise
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            kind = errors.DiskFull if full else errors.BadSpec
            raise kind(
                f"--state-dir {self.root} cannot be used: {error.strerror}: {error.filename}; "
                "call icdc run again when it can, for progress is stored in OpenSearch"
            ) from error

    def load(self) -> dict[str, Any] | None:
        """Read the resource as last saved; None at the first run, StateCorrupt if not ours.

        BadSpec where the file cannot be read.
        """
        try:
            resource = yaml.safe_load(self.resource_path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except OSError as error:
            text = f"{self.resource_path} cannot be read: {error.strerror}"
            raise errors.BadSpec(text) from error
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise self._build_error() from error
        if not isinstance(resource, dict) or not isinstance(resource.get("metadata"), dict):
            raise self._build_error()
        return resource

    def save(self, resource: dict[str, Any]) -> None:
        """Write `resource`; it is durable when this returns."""
        text = yaml.dump(resource, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
        files.write_atomically(self.resource_path, text)

    def _build_error(self) -> errors.StateCorrupt:
        return errors.StateCorrupt(
            f"{self.resource_path} is not a resource that icdc wrote; remove the file to continue: "
            "only the history of runs is lost, because progress is stored in OpenSearch"
        )
