"""The pipeline of the demo while it runs: a runner in a thread, and waiting for what it reaches.

It watches as a user would, through the status, and kills as a machine would, by SIGKILL.
"""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from icdc_api.errors import Bug, IcdcError
from icdc_api.status.pipeline_status import PipelineStatus, TableState
from icdc_cli import live
from icdc_cli.local import application, processes, resource
from icdc_cli.local.runner import LocalRunner
from icdc_cli.local.runs import LocalRuns
from icdc_cli.local.state_dir import StateDir

PATIENCE_SECONDS = 300.0
"""How long any step may take before the demo gives up and says what it waited for."""
POLL_SECONDS = 0.1
"""Between two polls: short, as the kill has to fall inside of one batch."""


class Stage:
    """A context manager: entering starts the pipeline, leaving stops it and ends its processes."""

    def __init__(self, pipeline: Path, state: StateDir, view: live.View, url: str) -> None:
        self._state = state
        self._view = view
        self._url = url
        self._runner = LocalRunner(
            resource.load(pipeline),
            state,
            LocalRuns(state.runs_path, application.find_installed()),
            once=False,
            watcher=view.show,
        )
        self._failure: IcdcError | None = None
        # A thread, since the demo must act while the runner works; no signal comes here, as Python
        # delivers those to the main thread.
        self._thread = threading.Thread(target=self._run, name="runner")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._runner.stop()
        if error is not None:
            # Somebody is waiting for the error: do not wait for a batch.
            self._runner.stop()
        self._thread.join()

    @property
    def status(self) -> PipelineStatus:
        """The pipeline's status as it is now."""
        return self._runner.status

    def wait_applied(self, heads: Mapping[str, str | None]) -> None:
        """Wait until each table's index equals the snapshot whose id `heads` has under its name."""

        def is_applied() -> bool:
            tables = {table.name: table for table in self.status.tables}
            return all(
                name in tables
                and tables[name].state is TableState.STREAMING
                and tables[name].applied_snapshot_id == head
                for name, head in heads.items()
            )

        self._wait(is_applied, "every table is caught up")

    def kill_within_batch(self, index: str, documents: int) -> str:
        """Kill the application after `documents` writes of a batch; return the name of the run.

        intent in icdc-state   writes since before   what it is
        none                   0                     the commit was not noticed yet
        open                   1,200                 too early: hardly anything to repeat
        open                   5,400                 killed here
        none                   66,667                too late: it would show nothing
        """
        before = self._count_writes(index)
        # Both: an intent is in the state document from the plan to the last write of a batch, and
        # writes alone could be those of a batch that has ended.
        self._wait(
            lambda: (
                self._has_open_intent(index) and self._count_writes(index) >= before + documents
            ),
            "a batch is half written",
        )
        run = self.status.current_run
        if run is None:
            raise Bug("no run was active when it should have been killed")
        record = json.loads((self._state.runs_path / run.name / "process.json").read_text())
        # Driver, JVM and workers at once, as a host that loses power would end them.
        processes.kill(record["marker"])
        return run.name

    def _run(self) -> None:
        try:
            self._runner.run()
        except IcdcError as error:
            # For the main thread, which waits and raises it: an error of a thread is only printed.
            self._failure = error

    def _wait(self, reached: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not reached():
            if self._failure is not None:
                raise self._failure
            stalled = [table for table in self.status.tables if table.state is TableState.STALLED]
            if stalled:
                raise Bug(f"{stalled[0].name} stalled: {stalled[0].message}")
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise Bug(f"waited in vain until {what}; the logs are in {self._state.runs_path}")
            time.sleep(POLL_SECONDS)

    def _has_open_intent(self, index: str) -> bool:
        return bool(self._get(f"icdc-state/_doc/{index}")["_source"]["intent"])

    def _count_writes(self, index: str) -> int:
        stats = self._get(f"{index}/_stats/indexing")
        # Counted by the node itself: reports of the application come after the fact. Of primaries,
        # since replicas count the same write again.
        return int(stats["_all"]["primaries"]["indexing"]["index_total"])

    def _get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self._url}/{path}", timeout=30) as response:
            answer: dict[str, Any] = json.load(response)
            return answer
