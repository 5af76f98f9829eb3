"""Many idle pipelines on a real API server, and runs of them that are played to their end."""

import json
import time
from collections.abc import Iterator
from threading import Lock, Thread
from typing import Any

from icdc_api.job import report_text
from icdc_api.job.run_files import RunReport
from icdc_api.status.pipeline_status import PipelineStatus, TableStatus
from icdc_api.status.runs import RunState
from icdc_operator.manifests.metadata import ANNOTATION_RUN_ID
from icdc_testing.kube.stored_pipelines import Pipelines, Resource, make_minimal
from icdc_testing.lake.catalogs.head_lake import HeadLake
from icdc_testing.operator.adapter.stepping import make_driver_pod
from icdc_testing.operator.deciding.pipelines import NOW, make_caught_up, run_record

_START_SECONDS = 120


class Many:
    """`count` pipelines that follow one table each second that `poll_seconds` names."""

    def __init__(
        self, pipelines: Pipelines, lake: HeadLake, *, count: int, poll_seconds: int
    ) -> None:
        self.names = [f"shop-{number}" for number in range(count)]
        self._pipelines = pipelines
        lake.create()
        head = lake.commit()
        self._table = make_caught_up(applied_snapshot_id=head, current_snapshot_id=head)
        spec: dict[str, Any] = {
            "catalog": {"properties": lake.properties},
            "changelog": {"pollIntervalSeconds": poll_seconds},
        }
        self._create([make_minimal(name, **spec) for name in self.names])

    def _create(self, items: list[Resource]) -> None:
        """As they are after their first run: nothing is due."""
        made = {"apiVersion": "v1", "kind": "List", "items": items}
        self._pipelines.run_ok("create", "-f", "-", stdin=json.dumps(made))
        listed = json.loads(self._pipelines.run_ok("get", "icdc", "-o", "json"))
        for item in listed["items"]:
            item["status"] = _make_idle(item["metadata"]["name"], self._table).to_resource()
        self._pipelines.run_ok(
            "replace", "--subresource=status", "-f", "-", stdin=json.dumps(listed)
        )

    def run_once(self, name: str, times: int) -> None:
        """Somebody asks a pipeline for one more run, for the so manyth time, and it goes well."""
        patch = json.dumps({"spec": {"restartNonce": times}})
        self._pipelines.run_ok("patch", "icdc", name, "--type=merge", "-p", patch)
        run = f"sparkapplication/{name}-c{1 + times}-1"
        self._pipelines.run_ok("wait", "--for=create", run, f"--timeout={_START_SECONDS}s")
        application = json.loads(self._pipelines.run_ok("get", run, "-o", "json"))
        pod = make_driver_pod(application)
        report = RunReport(
            run_id=application["metadata"]["annotations"][ANNOTATION_RUN_ID],
            started_at=NOW,
            updated_at=NOW,
            finished=True,
            tables=(self._table,),
        )
        pod["metadata"]["annotations"] = {
            **pod["metadata"]["annotations"],
            report_text.ANNOTATION_REPORT: report_text.to_annotation(report),
        }
        self._pipelines.run_ok("create", "-f", "-", stdin=json.dumps(pod))
        status = json.dumps({"status": {"phase": "Succeeded"}})
        pod_name = pod["metadata"]["name"]
        self._pipelines.run_ok(
            *("patch", "pod", pod_name, "--subresource=status", "--type=merge", "-p", status)
        )


class Churn:
    """Runs of one pipeline after the other, by some threads, for so many seconds."""

    def __init__(self, many: Many, *, threads: int, seconds: float) -> None:
        self._many = many
        self._end = time.monotonic() + seconds
        self._turns = self._list_turns()
        self._lock = Lock()
        self._errors: list[BaseException] = []
        self.runs = 0
        self._threads = [Thread(target=self._work) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def _list_turns(self) -> Iterator[tuple[str, int]]:
        times = 0
        while True:
            times += 1
            for name in self._many.names:
                yield name, times

    def _work(self) -> None:
        while time.monotonic() < self._end and not self._errors:
            with self._lock:
                name, times = next(self._turns)
            try:
                self._many.run_once(name, times)
            except AssertionError as error:
                self._errors.append(error)
                return
            with self._lock:
                self.runs += 1

    @property
    def lasts(self) -> bool:
        """Return whether any thread is running."""
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        """Wait for the runs that were begun; raises what went wrong."""
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]


def _make_idle(name: str, table: TableStatus) -> PipelineStatus:
    good = run_record(
        name=f"{name}-e1-1", run_id=f"{name}-e1-1.1000", state=RunState.SUCCEEDED, finished_at=NOW
    )
    return PipelineStatus(
        observed_generation=1, tables=(table,), last_run=good, recent_runs=(good,)
    )
