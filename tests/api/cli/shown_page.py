"""Pipelines of a test's namespace, and the page of `kubectl icdc ui` that shows them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from icdc_api.errors import Bug
from icdc_api.status.pipeline_status import PipelineStatus, TableReason, TableState, TableStatus
from icdc_api.status.runs import Failure, RunKind, RunState, RunStatus
from icdc_testing.kube.stored_pipelines import Pipelines
from icdc_testing.operator.deciding.shown_pipelines import make_resource

MARKUP = (
    "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"
    "<a href='javascript:window.hit = 1'>a</a></td>"
)


@dataclass(frozen=True)
class Shown:
    """Pipelines in a namespace, and the page that shows them."""

    pipelines: Pipelines
    base: str

    def locate(self, name: str) -> str:
        """Return the address of the page of a pipeline."""
        return f"{self.base}pipelines/{self.pipelines.namespace}/{name}"


def make_hostile(now: datetime) -> dict[str, Any]:
    """Return a pipeline whose author has put markup wherever there may be text."""
    table = TableStatus(
        name=f"shop.`{MARKUP}`",
        index=MARKUP,
        state=TableState.STALLED,
        reason=TableReason.BUG,
        message=MARKUP,
    )
    failed = RunStatus(
        name=MARKUP,
        kind=RunKind.CHANGELOG,
        sequence=1,
        epoch=1,
        state=RunState.FAILED,
        failure=Failure.of(Bug(MARKUP)),
    )
    status = PipelineStatus(tables=(table,), last_run=failed)
    return make_resource("", "hostile", status, now)


def store(pipelines: Pipelines, resources: list[dict[str, Any]]) -> None:
    """Create pipelines in the namespace, and write their statuses as the operator does."""
    for resource in resources:
        resource["metadata"]["namespace"] = pipelines.namespace
        # The server counts generations itself.
        resource["metadata"].pop("generation")
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": resources})
    apply = ("apply", "--server-side", "-f", "-")
    pipelines.run_ok(*apply, stdin=text)
    pipelines.run_ok(*apply, "--subresource=status", stdin=text)


@contextmanager
def serve_page(pipelines: Pipelines, kubeconfig: Path) -> Iterator[str]:
    """Run `kubectl icdc ui`; yield the address that it prints."""
    plugins = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [str(pipelines.kubectl.program), "icdc", "ui", "--no-browser"]
    with subprocess.Popen(
        [*command, "-n", pipelines.namespace],
        env={**os.environ, "PATH": plugins, "KUBECONFIG": str(kubeconfig), "KUBERC": "off"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGINT)
    assert process.returncode == 0
