"""Health of pipelines in Flux and Argo CD, by the rules in docs/gitops.md and their own engines.

Both must agree with kstatus, which Flux, Helm and kpt use where they have no rule.
"""

import json
import re
import subprocess
from typing import NamedTuple

import yaml

from icdc_api import naming
from icdc_testing import ROOT
from icdc_testing.kube import binaries, kstatus
from icdc_testing.kube.kstatus import Resource, Verdict

_PAGE = ROOT / "docs" / "gitops.md"
_ENGINES = "gitops"
_FLUX = {
    Verdict.IN_PROGRESS: "inProgress",
    Verdict.FAILED: "failed",
    Verdict.CURRENT: "current",
}
_ARGO = {
    Verdict.IN_PROGRESS: "Progressing",
    Verdict.FAILED: "Degraded",
    Verdict.CURRENT: "Healthy",
}


class ToolHealth(NamedTuple):
    """The health of one object in both tools."""

    argo: str
    """Health status of Argo CD."""
    message: str
    """Message that Argo CD shows."""
    flux: str
    """Status of the health check of Flux."""


def ask_tools(objects: list[Resource]) -> list[ToolHealth]:
    """Return the health of each object."""
    (rule,) = yaml.safe_load(_read_block("yaml flux"))["spec"]["healthCheckExprs"]
    assert (rule["apiVersion"], rule["kind"]) == (naming.API_VERSION, naming.KIND)
    question = {"lua": _read_block("lua argocd"), "objects": objects}
    text = json.dumps({**question, "cel": {name: rule[name] for name in _FLUX.values()}})
    done = subprocess.run(
        [binaries.ensure_program(_ENGINES)],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [ToolHealth(**answer) for answer in json.loads(done.stdout)]


def check_agreement(resource: Resource, said: ToolHealth | None = None) -> Verdict:
    """Return the verdict of kstatus and assert that the tools agree; `said`: their known answer."""
    verdict = kstatus.judge(resource)
    said = said or ask_tools([resource])[0]
    assert said.flux == _FLUX[verdict], resource
    suspended = verdict == Verdict.CURRENT and resource["spec"].get("suspend", False)
    assert said.argo == ("Suspended" if suspended else _ARGO[verdict]), resource
    return verdict


def _read_block(language: str) -> str:
    """Return the text of the only block of this language in the page."""
    text = _PAGE.read_text(encoding="utf-8")
    (block,) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert isinstance(block, str)
    return block
