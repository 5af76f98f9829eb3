"""The page docs/quick-start.md, walked on a cluster: its blocks, in their order, as a reader types
them.

What differs from what the page says is said in one place: `QuickStart._name_charts`. Knows no test.
"""

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from icdc_api import naming
from icdc_testing import ROOT
from icdc_testing.kube import binaries
from icdc_testing.kube.charts.files import CHARTS
from icdc_testing.real_cluster.services import demo_images, product
from icdc_testing.real_cluster.used import UsedCluster
from icdc_testing.waiting import wait

PAGE = ROOT / "docs" / "quick-start.md"
NAMESPACE = "demo"
NAME = "shop"
_COMMAND_SECONDS = 660.0
"""As long as the page lets a command wait, and a minute."""
_OPERATOR, _DEMO = "iceberg-cdc-operator", "iceberg-cdc-demo"
_RELEASED = re.compile(r"oci://registry\.example/lake/charts/(\S+) --version \S+")
_STEP = re.compile(r"^## (\d+\. .+)\n", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w+).*\n((?:.*\n)*?)```$", re.MULTILINE)


@dataclass(frozen=True)
class PageBlock:
    """A block of code of the page."""

    language: str
    """`sh` is typed, `yaml` is saved as pipeline.yaml, `text` is a command and what it prints."""
    text: str


@dataclass(frozen=True)
class PageStep:
    """A heading of the page, and the blocks below it."""

    title: str
    blocks: list[PageBlock]


@dataclass(frozen=True)
class Printed:
    """What a command printed, and what the page says it prints."""

    wanted: str
    printed: str


def read_steps(text: str) -> list[PageStep]:
    """Return the numbered steps of the page."""
    _, *parts = _STEP.split(text)
    return [
        PageStep(title, [PageBlock(*found) for found in _BLOCK.findall(below.split("\n## ")[0])])
        for title, below in zip(parts[::2], parts[1::2], strict=True)
    ]


class QuickStart:
    """One walk, in a folder of its own and in the namespace that the page names."""

    def __init__(self, cluster: UsedCluster, folder: Path) -> None:
        self.steps = read_steps(PAGE.read_text(encoding="utf-8"))
        self.seconds: dict[str, float] = {}
        """How long each step took."""
        self._cluster, self._folder = cluster, folder
        self._write_values()

    def take(self, step: PageStep) -> list[Printed]:
        """Do what the step says; return what was printed where the page shows it."""
        began = time.monotonic()
        shown = [printed for block in step.blocks for printed in self._take_block(block)]
        self.seconds[step.title] = time.monotonic() - began
        return shown

    def is_removed(self) -> bool:
        """Return whether the namespace is gone, and nothing else is there that a release made."""
        kubectl = self._cluster.kubectl
        found = kubectl.run_ok("get", "namespace", NAMESPACE, "--ignore-not-found", "-o", "name")
        kinds = "clusterroles,clusterrolebindings,persistentvolumes,customresourcedefinitions"
        listed = kubectl.read_object("get", kinds)["items"]
        key = "meta.helm.sh/release-namespace"
        ours = [
            one for one in listed if one["metadata"].get("annotations", {}).get(key) == NAMESPACE
        ]
        return not found.strip() and not ours

    def clean(self) -> None:
        """Remove what a walk left that did not come to its end."""
        if self.is_removed():
            return
        for block in self.steps[-1].blocks:
            for line in block.text.splitlines():
                # Not all that is deleted there may have been made.
                self._run_shell(line)
        wait.wait_until(self.is_removed, "what an earlier walk left is gone")

    def _take_block(self, block: PageBlock) -> Iterator[Printed]:
        if block.language == "yaml":
            (self._folder / "pipeline.yaml").write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            self._type(block.text)
        else:
            for said in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, _, wanted = said.partition("\n")
                yield Printed(wanted, self._type(command))

    def _type(self, command: str) -> str:
        """Run the lines in a shell and return what they print; AssertionError where one fails."""
        done = self._run_shell(self._name_charts(command))
        assert done.returncode == 0, f"{command}{done.stdout}{done.stderr}\n{self._describe()}"
        return done.stdout

    def _run_shell(self, command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["sh", "-ec", command],
            cwd=self._folder,
            env=self._build_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_SECONDS,
        )

    def _name_charts(self, command: str) -> str:
        """Name charts of this checkout in place of released ones, with the values that go with it.

        A released chart names its images; those of a checkout are named by the values: images that
        the cluster has loaded. The CRD is left to the release that has it already.
        """
        return _RELEASED.sub(rf"{CHARTS}/\1 --values {self._folder}/\1.json", command)

    def _write_values(self) -> None:
        loaded = self._cluster.facts["images"]
        operator = product.build_operator_values(loaded, [])
        operator["crds"] = {"install": self._is_ours_to_define()}
        values = {_OPERATOR: operator}
        values[_DEMO] = demo_images.build_demo_values(self._cluster.first_node, loaded)
        for chart, of_chart in values.items():
            (self._folder / f"{chart}.json").write_text(json.dumps(of_chart), encoding="utf-8")

    def _is_ours_to_define(self) -> bool:
        kubectl = self._cluster.kubectl
        return kubectl.run("get", "crd", naming.CRD_NAME, "-o", "name").code != 0

    def _build_environment(self) -> dict[str, str]:
        programs = [binaries.ensure_program(name).parent for name in ("helm", "kubectl")]
        homes = {
            f"HELM_{name}_HOME": str(self._folder / name) for name in ("CACHE", "CONFIG", "DATA")
        }
        folders = [*programs, ROOT / ".venv" / "bin"]
        return {
            **os.environ,
            **homes,
            "PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]]),
            "KUBECONFIG": str(self._cluster.kubectl.kubeconfig),
            "KUBECACHEDIR": str(self._folder / "kube"),
            "KUBERC": "off",
        }

    def _describe(self) -> str:
        """Return pods, pipelines and events, for the message of an assertion."""
        run, here = self._cluster.kubectl.run, ("-n", NAMESPACE)
        pods = run("get", "icdc,sparkapplications,pods", *here, "-o", "wide").out
        events = run("get", "events", *here, "--sort-by=.metadata.creationTimestamp").out
        logs = run("logs", "deployment/demo-writer", *here, "--tail=20").out
        return f"{pods}\n{events[-4000:]}\n{logs}"
