"""The adapter on a real API server, driven step by step, and spark-operator played by hand."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from icdc_api import naming
from icdc_api.job import report_text
from icdc_api.job.run_files import RunReport
from icdc_api.status.runs import RunStatus
from icdc_operator.cluster.kube import connect
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.runs.adapter import ClusterAdapter
from icdc_operator.cluster.runs.observation import Observation
from icdc_operator.core import decide
from icdc_operator.core.observed import Decision
from icdc_operator.manifests.launch import InstallSettings
from icdc_testing.kube.stored_pipelines import Pipelines, Resource

SETTINGS = InstallSettings(image="iceberg-cdc-operator-spark:test")
DRIVER = "spark-kubernetes-driver"

Answer = TypeVar("Answer")


@dataclass
class SteppedCluster:
    """One namespace of an API server with an operator that works when it is told to."""

    kubeconfig: Path
    pipelines: Pipelines
    counted: list[tuple[str, str, int | str]] = field(default_factory=list)

    def ask(self, question: Callable[[ClusterApi], Awaitable[Answer]]) -> Answer:
        """Send one request and return the answer of the API server."""

        async def ask_process() -> Answer:
            env = {connect.KUBECONFIG: str(self.kubeconfig)}
            async with connect.open_api(env, observer=self._count) as api:
                return await question(api)

        return asyncio.run(ask_process())

    def adapt(self, question: Callable[[ClusterAdapter], Awaitable[Answer]]) -> Answer:
        """Call a new adapter, which remembers nothing, and return its result."""

        async def ask_process(api: ClusterApi) -> Answer:
            return await question(ClusterAdapter(api, SETTINGS))

        return self.ask(ask_process)

    def observe(self, name: str = "shop") -> Observation:
        """Return a look at a pipeline that is there."""
        seen = self.adapt(lambda adapter: adapter.observe(self.pipelines.namespace, name))
        assert seen is not None
        return seen

    def step(self, name: str = "shop") -> Decision:
        """Look once, as the reconciler of an operator that was started this moment."""

        async def take_steps(adapter: ClusterAdapter) -> Decision:
            seen = await adapter.observe(self.pipelines.namespace, name)
            assert seen is not None
            return await carry_out(adapter, seen)

        return self.adapt(take_steps)

    def list_objects(self, kind: str) -> list[Resource]:
        """Return all objects of a kind in the namespace that belong to a pipeline."""
        labelled = ("-l", naming.LABEL_PIPELINE, "-o", "json")
        items: list[Resource] = json.loads(self.pipelines.run_ok("get", kind, *labelled))["items"]
        return items

    def list_names(self, kind: str) -> list[str]:
        """Return their names."""
        return sorted(item["metadata"]["name"] for item in self.list_objects(kind))

    def say(self, run: str, state: str, message: str = "") -> None:
        """Write the state of a run, as spark-operator does."""
        application_state = {"state": state, "errorMessage": message}
        self._patch_status("sparkapplication", run, {"applicationState": application_state})

    def start_driver(self, run: str) -> None:
        """Make the driver pod of a run, as spark-operator does, and start it, as a kubelet does."""
        (application,) = [
            item
            for item in self.list_objects("sparkapplication")
            if item["metadata"]["name"] == run
        ]
        self.pipelines.run_ok("create", "-f", "-", stdin=json.dumps(make_driver_pod(application)))
        self.write_pod_state(run, "Running", {"running": {"startedAt": format_now()}})

    def write_pod_state(self, run: str, phase: str, state: Resource) -> None:
        """Write the state of the driver, as a kubelet does."""
        container = {
            "name": DRIVER,
            "image": "spark",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": state,
        }
        status = {"phase": phase, "containerStatuses": [container]}
        self._patch_status("pod", f"{run}-driver", status)

    def report(self, run: str, report: RunReport) -> None:
        """Write a report, as the driver does."""
        text = f"{report_text.ANNOTATION_REPORT}={report_text.to_annotation(report)}"
        self.pipelines.run_ok("annotate", "--overwrite", "pod", f"{run}-driver", text)

    def _patch_status(self, kind: str, name: str, status: Resource) -> None:
        how = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
        self.pipelines.run_ok("patch", kind, name, *how)

    def _count(self, verb: str, kind: str, code: int | str) -> None:
        self.counted.append((verb, kind, code))


async def carry_out(adapter: ClusterAdapter, seen: Observation) -> Decision:
    """Decide on a look, make the status durable, and act."""
    decision = decide.decide(seen.observed, datetime.now(UTC))
    if decision.status != seen.observed.status:
        seen = await adapter.save(seen, decision.status)
    for action in decision.actions:
        await adapter.act(seen, action)
    return decision


def make_driver_pod(application: Resource) -> Resource:
    """Return the driver pod as Spark makes it from the SparkApplication, on a node that is not
    there."""
    metadata, template = application["metadata"], application["spec"]["driver"]["template"]
    owner = {
        **{name: application[name] for name in ("apiVersion", "kind")},
        **{name: metadata[name] for name in ("name", "uid")},
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{metadata['name']}-driver",
            "labels": {**template["metadata"]["labels"], "spark-role": "driver"},
            "annotations": template["metadata"]["annotations"],
            "ownerReferences": [owner],
        },
        "spec": {
            "restartPolicy": "Never",
            "nodeName": "nowhere",
            "terminationGracePeriodSeconds": template["spec"]["terminationGracePeriodSeconds"],
            "containers": [{"name": DRIVER, "image": "spark"}],
        },
    }


def make_report(run: RunStatus, *tables: Any, finished: bool = False, **more: Any) -> RunReport:
    """Return a report of that attempt."""
    moment = datetime.now(UTC)
    return RunReport(
        run_id=run.run_id or run.name,
        started_at=moment,
        updated_at=moment,
        finished=finished,
        tables=tables,
        **more,
    )


def format_now() -> str:
    """Return the time as the API has it."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
