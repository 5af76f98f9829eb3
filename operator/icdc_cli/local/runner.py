"""Runs one pipeline on this host: observe, decide, make the status durable, act, again.

    observe   runs as processes, the status as last saved, `stop` if it was called
    decide    the operator's own, which knows nothing of this host
    save      the new status, before anything is done about it
    act       create, stop or forget runs
    wait      0.2 s while a run is active, else as long as the decision says

A crash between save and act is made good by the next step: the status says Planned, no such run is
observed, so `decide` asks for it again. A crash before save has done nothing.

The loop of the operator without a cluster. All decisions are `decide`'s; this module only carries
them out, and ends the loop where nothing is left to do.
"""

import functools
import importlib.metadata
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from icdc_api import naming
from icdc_api.errors import FailureClass
from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunRequest
from icdc_api.spec.pipeline import Mode
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_cli.local.resource import LocalPipeline, recall
from icdc_cli.local.runs import LocalRuns
from icdc_cli.local.state_dir import StateDir
from icdc_operator.core import decide, events, retry
from icdc_operator.core.asked import comparisons
from icdc_operator.core.observed import Action, CreateRun, Decision, ForgetRun, Observed, StopRun

POLL_SECONDS = 0.2
"""Between two polls of live runs: reports are files, so a poll is cheap."""


@dataclass(frozen=True)
class Update:
    """What is reported to a watcher of the runner after every step that changed something."""

    status: PipelineStatus
    """The whole status, as it was just made durable."""
    events: tuple[events.Event, ...]
    """What the operator would post for this step."""


class LocalRunner:
    """One pipeline, one state directory whose lock the caller holds.

    `once` ends when every table is caught up, complete or stalled. Otherwise it ends by `stop`, or
    when only a change of the pipeline could matter. Without `once` one application follows the
    tables all the time: a JVM for each commit makes no sense on one host.
    """

    def __init__(
        self,
        local: LocalPipeline,
        state: StateDir,
        runs: LocalRuns,
        *,
        once: bool,
        secrets_dir: Path | None = None,
        watcher: Callable[[Update], None] = lambda _: None,
    ) -> None:
        self._local = local
        self._state = state
        self._runs = runs
        self._once = once
        self._secrets_dir = secrets_dir
        self._watcher = watcher
        # Plain flags: a signal handler may not take a lock that the loop may hold. Python runs it
        # between two instructions of the main thread, where the loop may be anywhere.
        self._closing = False
        self._impatient = False
        # Whoever calls `icdc run` asks for a run now, whatever the schedule says.
        self._started = datetime.now(UTC)
        self._generation, status = recall(state, local)
        # And may have just corrected the cause: a person need not wait for the pause of failures.
        self._status = retry.reset_failures(status)

    @property
    def resource(self) -> dict[str, Any]:
        """The whole resource with its status as it is now."""
        return self._local.with_status(self._generation, self._status)

    @property
    def status(self) -> PipelineStatus:
        """The status as it is now."""
        return self._status

    def stop(self) -> None:
        """Let the current batch finish, then end `run`; after a second call end without waiting.

        May be called from a signal handler.
        """
        self._impatient = self._closing
        self._closing = True

    def run(self) -> PipelineStatus:
        """Work until there is nothing left to do; return the status at the end."""
        try:
            while True:
                decision = self._step()
                if not self._once and self._cannot_start():
                    self._once = True
                    continue  # judged anew, as what is not tried again
                if self._is_done(decision):
                    return self._status
                self._wait(decision)
        finally:
            # Also after an error of ours: a driver that nobody asks to end is not left behind.
            self._runs.close()

    def _step(self) -> Decision:
        observed = Observed(
            namespace=self._local.pipeline.metadata.namespace,
            name=self._local.pipeline.metadata.name,
            generation=self._generation,
            # Nothing is compared again and again on a host, where somebody sees the end of a run.
            spec=self._local.pipeline.spec.model_copy(update={"verify": None}),
            status=self._status,
            runs=self._runs.observe(),
            asked_at=self._started,
            operator_version=_read_version(),
            closing=self._closing,
            next_attempt="call icdc run again",
            gives_up=self._once,
        )
        decision = decide.decide(observed, datetime.now(UTC))
        if decision.status != self._status:
            new_events = tuple(events.derive_events(self._status, decision.status))
            self._status = decision.status
            # Before the actions: a run that is made must be found again after a crash.
            self._state.save(self.resource)
            self._watcher(Update(decision.status, new_events))
        for action in decision.actions:
            self._act(action)
        run = self._status.current_run
        # After the actions, which may have asked the same run to end after its batch.
        if self._impatient and run is not None:
            self._runs.stop(run.name, graceful=False)
        return decision

    def _act(self, action: Action) -> None:
        match action:
            case CreateRun(run):
                spark, request = self._local.pipeline.spec.spark, self._build_request(action)
                short = action.short and not request.continuous
                self._runs.create(run.name, request, spark, short=short)
            case StopRun(name, graceful):
                self._runs.stop(name, graceful=graceful)
            case ForgetRun(name):
                self._runs.forget(name)

    def _build_request(self, create: CreateRun) -> RunRequest:
        run, spec = create.run, self._local.pipeline.spec
        # See the class: `once` never stays, and everything else that has a changelog does.
        stays = not self._once and (create.continuous or spec.mode != Mode.EXPORT_ONLY)
        # A comparison that is asked for waits until the run before it has ended.
        stays = stays and comparisons.find_requested(self._status, spec) is None
        return RunRequest(
            run_id=run.run_id or run.name,
            mode=RunMode.of(run.kind),
            tables=create.tables,
            reexport=create.reexport,
            pipeline=self._local.request,
            owner=self._local.pipeline.owner,
            epoch=run.epoch,
            continuous=stays and not run.kind.inspects,
            poll_seconds=spec.changelog.poll_interval_seconds,
            report_path=str(self._runs.build_report_path(run.name)),
            end_with_stdin=True,
            secrets_dir=None if self._secrets_dir is None else str(self._secrets_dir),
        )

    def _cannot_start(self) -> bool:
        """Return whether no JVM starts with these options and this JDK: both are read only once."""
        last = self._status.last_run
        if self._status.current_run is not None or last is None or last.failure is None:
            return False
        is_submission = last.failure.failure_class is FailureClass.SUBMISSION
        return is_submission and not last.failure.retryable

    def _is_done(self, decision: Decision) -> bool:
        # Settled is about tables; a run that is asked to end still has a report to write.
        if not decision.settled or self._status.current_run is not None:
            return False
        return self._once or self._closing or decision.requeue_after is None

    def _wait(self, decision: Decision) -> None:
        """Wait until the next poll is due, or `stop` is called."""
        # The core counts on an adapter that watches and is woken; this one has to poll.
        wanted = POLL_SECONDS if decision.requeue_after is None else decision.requeue_after
        if self._status.current_run is not None:
            wanted = min(wanted, POLL_SECONDS)
        end = time.monotonic() + wanted
        closing = self._closing
        # In slices: `sleep` goes on after a signal whose handler returns, so only the flag ends it.
        while (left := end - time.monotonic()) > 0 and self._closing == closing:
            time.sleep(min(left, POLL_SECONDS))


@functools.cache
def _read_version() -> str | None:
    try:
        return importlib.metadata.version(naming.MANAGED_BY)
    except importlib.metadata.PackageNotFoundError:
        return None  # run from a checkout that is not installed
