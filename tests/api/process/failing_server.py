"""A control plane of its own whose API server ends and comes back, also with an older store."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.server_process import Program
from icdc_testing.waiting import wait

API_SERVER, STORE = "kube-apiserver", "etcd"
_READY_SECONDS = 180.0


class FailingKubeApi(KubeApi):
    """Like KubeApi; what is stopped comes back on the same ports."""

    def __init__(self, crds: Sequence[Path] = ()) -> None:
        super().__init__(crds, own=True)
        self._commands: dict[str, tuple[Path, list[str]]] = {}
        self._running: dict[str, Program] = {}
        self._copies = 0

    @contextmanager
    def interrupt(self) -> Iterator[None]:
        """Inside nobody answers at the address of the API server."""
        self._running[API_SERVER].kill()
        try:
            yield
        finally:
            self._start_again(API_SERVER)
            self._wait_until_ready()

    def copy_store(self) -> Path:
        """Return a copy of all that is stored. The API server is away for a moment."""
        self._copies += 1
        copy = self._folder / f"copy-{self._copies}"
        with self._store_stopped():
            shutil.copytree(self._store, copy)
        return copy

    def restore_store(self, copy: Path) -> None:
        """Put the copy in place of what is stored now."""
        with self._store_stopped():
            shutil.rmtree(self._store)
            shutil.copytree(copy, self._store)

    def define(self, path: Path) -> None:
        """Create the kind of a CustomResourceDefinition, and wait until it can be used."""
        self._define(path)

    @property
    def _store(self) -> Path:
        return self._folder / "etcd"

    @contextmanager
    def _store_stopped(self) -> Iterator[None]:
        with self.interrupt():
            self._running[STORE].kill()
            try:
                yield
            finally:
                self._start_again(STORE)

    def _run(self, undo: ExitStack, path: Path, arguments: Sequence[str]) -> Program:
        self._commands[path.name] = path, list(arguments)
        self._running[path.name] = super()._run(undo, path, arguments)
        # The newest one, whichever that is at the end.
        undo.callback(lambda: self._running[path.name].kill())
        return self._running[path.name]

    def _start_again(self, name: str) -> None:
        path, arguments = self._commands[name]
        self._running[name] = Program.start(path, arguments, self._folder)

    def _wait_until_ready(self) -> None:
        wait.wait_until(
            lambda: self.kubectl.run("get", "--raw", "/readyz").code == 0,
            "the API server is ready again",
            seconds=_READY_SECONDS,
        )
