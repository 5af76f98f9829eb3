"""What Flux and Argo CD make of pipelines by docs/gitops.md, in the engines that they use.

Both must agree with kstatus, by which Flux, Helm and kpt go where they are told nothing.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import yaml

from icdc_api import naming
from icdc_testing.kube import binaries, kstatus
from icdc_testing.kube.kstatus import Resource, Verdict

_PAGE = Path(__file__).parents[4] / "docs" / "gitops.md"
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


class Told(NamedTuple):
    """What the tools say of one object."""

    argo: str
    message: str
    flux: str


def told(objects: list[Resource]) -> list[Told]:
    """What the tools say of each of them."""
    (rule,) = yaml.safe_load(_block("yaml flux"))["spec"]["healthCheckExprs"]
    assert (rule["apiVersion"], rule["kind"]) == (naming.API_VERSION, naming.KIND)
    question = {"lua": _block("lua argocd"), "objects": objects}
    asked = json.dumps({**question, "cel": {name: rule[name] for name in _FLUX.values()}})
    done = subprocess.run(
        [binaries.program(_ENGINES)],
        input=asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [Told(**each) for each in json.loads(done.stdout)]


def agreed(resource: Resource, said: Told | None = None) -> Verdict:
    """The verdict of kstatus, with which the tools agree; `said` where they were asked before."""
    verdict = kstatus.verdict(resource)
    said = said or told([resource])[0]
    assert said.flux == _FLUX[verdict], resource
    suspended = verdict == Verdict.CURRENT and resource["spec"].get("suspend", False)
    assert said.argo == ("Suspended" if suspended else _ARGO[verdict]), resource
    return verdict


def _block(language: str) -> str:
    """The text of the one block of this kind in the page."""
    text = _PAGE.read_text(encoding="utf-8")
    (found,) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert isinstance(found, str)
    return found
