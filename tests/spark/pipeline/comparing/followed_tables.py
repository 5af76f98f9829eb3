"""Tables that a continuous run of the test's own process follows, and what it is asked."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunQuestion, RunReport
from icdc_api.status.pipeline_status import TableState
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.waiting.wait import wait_until


@dataclass
class ContinuousTables:
    """Tables that a continuous run follows."""

    spark: SparkSession
    lake: Lake
    node: str
    folder: Path
    harness: Harness
    tables: dict[str, str]
    """Name of the table by alias."""
    report_path: Path = field(init=False)
    stop: threading.Event = field(init=False, default_factory=threading.Event)

    @property
    def question_path(self) -> Path:
        return self.folder / "question.json"

    @contextmanager
    def run(self) -> Iterator[None]:
        """Let the run go on inside the block, and end well."""
        request = self.harness.make_request(continuous=True)
        self.report_path = Path(request.report_path)
        with ThreadPoolExecutor(1) as pool:
            path = str(self.question_path)
            follower = PipelineRun(request, self.spark, self.stop, question_path=path)
            running = pool.submit(follower.run)
            try:
                wait_until(self.is_streaming, "all are followed", seconds=120)
                yield
            finally:
                self.stop.set()
            assert running.result(120).outcome is None

    def is_streaming(self) -> bool:
        return all(table.state is TableState.STREAMING for table in self.read_report().tables)

    def read_report(self) -> RunReport:
        return RunReport.read(self.report_path)

    def read_answer(self) -> dict[str, Any]:
        return self.read_report().result or {}

    def is_answered(self, question: str) -> Callable[[], bool]:
        return lambda: (
            self.read_answer().get("question") == question
            and self.read_answer()["complete"] is True
        )

    def ask(self, question: str, mode: RunMode, *aliases: str) -> None:
        tables = tuple(self.tables[alias] for alias in aliases)
        asked = {"id": question, "mode": mode, "tables": tables or None}
        RunQuestion.model_validate(asked).write(self.question_path)

    def ask_person(self, question: str, mode: RunMode, **more: Any) -> list[dict[str, Any]]:
        """Ask as a person does, wait, and return the entries of the answer."""
        asked = {"id": question, "mode": mode, **more}
        RunQuestion.model_validate(asked).write(self.question_path)
        wait_until(self.is_answered(question), f"{mode} is answered")
        entries: list[dict[str, Any]] = self.read_answer()["tables"]
        return entries

    def insert(self, alias: str, number: int, name: str = "new") -> None:
        self.lake.sql(f"insert into lake.{self.tables[alias]} values ({number}, '{name}')")

    def has(self, alias: str, number: int) -> bool:
        return str(number) in oracle.read_index(self.node, alias)

    def damage(self, alias: str) -> None:
        here = f"{self.node}/{alias}-000001/_doc"
        oracle.request(f"{here}/1", "PUT", {"id": 1, "name": "edited"})

    def assert_equal(self, alias: str) -> None:
        """Require that the index equals the table, and is that of the first export."""
        assert set(oracle.request(f"{self.node}/_alias/{alias}")) == {f"{alias}-000001"}
        expected = oracle.read_expected(self.spark, f"lake.{self.tables[alias]}", ["id"])
        oracle.assert_equal(oracle.read_index(self.node, alias), expected)
