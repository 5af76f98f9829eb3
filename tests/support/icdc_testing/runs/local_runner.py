"""Run the reconcile core, its local runner and the application in the test's own Spark.

From a pipeline's file to its index with all that decides, but without a process.
"""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import SparkSession

from icdc_api.job.run_files import RunReport, RunRequest
from icdc_api.spec.spark import Spark
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_cli.local import resource
from icdc_cli.local.application import Application as Launched
from icdc_cli.local.runner import LocalRunner, Update
from icdc_cli.local.runs import LocalRuns
from icdc_cli.local.state_dir import StateDir
from icdc_operator.core.observed import RunPhase, RunSeen
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.runs.harness import Harness


class RunsInside(LocalRuns):
    """Runs in the test's own Spark, each to its end before it is observed."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        super().__init__(root, Launched(main_file=root, python="", java_home=None))
        self.root, self.spark = root, spark
        self.done: dict[str, RunSeen] = {}
        self.requests: dict[str, RunRequest] = {}
        self.stops: dict[str, threading.Event] = {}
        self.threads: dict[str, threading.Thread] = {}

    def create(self, name: str, request: RunRequest, spark: Spark, *, short: bool = False) -> None:
        if name not in self.done:
            (self.root / name).mkdir(parents=True, exist_ok=True)
            self.requests[name] = request
            PipelineRun(request, self.spark).run()
            report = RunReport.read(self.build_report_path(name))
            phase = RunPhase.SUCCEEDED if report.outcome is None else RunPhase.FAILED
            self.done[name] = RunSeen(name, request.epoch, phase, False, None, report)

    def observe(self) -> tuple[RunSeen, ...]:
        return tuple(self.done.values())


class RunsBeside(RunsInside):
    """Runs in the test's own Spark, each in a thread, for runs that stay."""

    def create(self, name: str, request: RunRequest, spark: Spark, *, short: bool = False) -> None:
        if name in self.done:
            return
        (self.root / name).mkdir(parents=True, exist_ok=True)
        self.done[name] = RunSeen(name, request.epoch, RunPhase.PENDING, True)
        self.stops[name] = threading.Event()
        application = PipelineRun(request, self.spark, self.stops[name])
        self.threads[name] = threading.Thread(target=application.run)
        self.threads[name].start()

    def observe(self) -> tuple[RunSeen, ...]:
        return tuple(map(self._observe_one, self.done.values()))

    def _observe_one(self, run: RunSeen) -> RunSeen:
        ended = not self.threads[run.name].is_alive()
        report = RunReport.read(self.build_report_path(run.name))
        phase = RunPhase.SUCCEEDED if ended else RunPhase.RUNNING
        return replace(run, phase=phase, writer_alive=not ended, report=report)

    def stop(self, name: str, *, graceful: bool) -> None:
        self.stops[name].set()


class RepeatedPipeline:
    """One pipeline that `icdc run --once` is called for again and again."""

    def __init__(self, spark: SparkSession, harness: Harness, folder: Path) -> None:
        self.harness, self.folder = harness, folder
        self.runs = RunsInside(folder / "state" / "runs", spark)
        self.reported: list[str] = []

    def run(self, **spec: Any) -> PipelineStatus:
        self.harness.resource["spec"] |= spec
        path = self.folder / "pipeline.yaml"
        path.write_text(yaml.safe_dump(self.harness.resource))
        self.reported.clear()
        with StateDir(self.folder / "state") as state:
            local = resource.load(path)
            runner = LocalRunner(local, state, self.runs, once=True, watcher=self.hear)
            return runner.run()

    def hear(self, update: Update) -> None:
        self.reported += [event.reason for event in update.events]

    @property
    def names(self) -> list[str]:
        return [name.removeprefix("test-") for name in self.runs.done]
