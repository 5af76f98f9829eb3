"""Keep runs of one pipeline going in this process, as the operator does, while faults happen."""

import random
import threading
import time
from collections import Counter
from pathlib import Path

from icdc_api.errors import FailureClass
from icdc_api.job.run_files import RunReport
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.runs.harness import Harness
from icdc_testing.waiting.wait import wait_until

_END_SECONDS = 180.0
_PAUSE_SECONDS = 0.2


class Runs:
    """A context manager: one run after the other, continuous or OnCommit as chance has it."""

    def __init__(self, pipeline: Harness, chance: random.Random) -> None:
        self._pipeline, self._chance = pipeline, chance
        self._closing = threading.Event()
        self._newest = threading.Event()
        self._threads: list[threading.Thread] = []
        self.started = 0
        self.failures: Counter[FailureClass] = Counter()
        """Of the runs that have ended, by class."""
        self.stalled: list[str] = []
        """What runs said of tables that wait for a person; there must be none."""

    def __enter__(self) -> "Runs":
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._newest.set()
        for thread in self._threads:
            thread.join(_END_SECONDS)
            assert not thread.is_alive(), "a run does not end"

    def stop_newest(self) -> None:
        """Ask the newest run to end; another one follows it."""
        self._newest.set()

    def replace(self) -> None:
        """Begin a run beside the newest one, which is thought dead and goes on until fenced."""
        begun = self.started
        self._begin()
        wait_until(lambda: self.started > begun, "the run that replaces has begun")

    def _begin(self) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=self._go_on, name="runs")
        self._threads.append(thread)
        thread.start()

    def _go_on(self) -> None:
        """Start runs until one is fenced: then another thread starts them."""
        while not self._closing.is_set():
            stop = threading.Event()
            request = self._pipeline.make_request(continuous=self._chance.random() < 0.5)
            self._newest = stop
            self.started += 1
            if self._closing.is_set():
                return
            PipelineRun(request, self._pipeline.spark, stop).run()
            report = RunReport.read(Path(request.report_path))
            outcome = report.outcome
            if outcome is not None:
                self.failures[outcome.failure_class] += 1
                if outcome.failure_class is FailureClass.FENCED:
                    return
                if not outcome.retryable:
                    self.stalled.append(f"{outcome.failure_class}: {outcome.message}")
            for table in report.tables:
                if table.reason is not None and outcome is None:
                    self.stalled.append(f"{table.name}: {table.reason}: {table.message}")
            time.sleep(_PAUSE_SECONDS)
