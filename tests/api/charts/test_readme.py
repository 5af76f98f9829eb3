"""The README's `helm install`, typed as it stands there: what it would install, and from where."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from icdc_testing.kube.charts.helm import Helm

pytestmark = pytest.mark.api

ROOT = Path(__file__).parents[3]
REGISTRY = "registry.example/iceberg-cdc"


def list_shown_lines() -> list[str]:
    """Return the commands of the README's shell blocks, each in one line."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    return blocks.replace("\\\n", " ").splitlines()


def test_the_readme_installs_the_images_that_it_has_pushed(
    helm: Helm, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = list_shown_lines()
    (install,) = [shlex.split(line) for line in lines if line.startswith("helm install ")]
    monkeypatch.chdir(ROOT)
    objects = list(yaml.safe_load_all(helm.ok("template", *install[2:])))
    (deployment,) = [item for item in objects if item and item["kind"] == "Deployment"]
    containers = deployment["spec"]["template"]["spec"]["containers"]
    pushed = [shlex.split(line)[-1] for line in lines if line.startswith("skopeo copy ")]
    operator, spark = (name.removeprefix("docker://") for name in pushed)
    assert {container["image"] for container in containers} == {operator}
    assert operator.startswith(REGISTRY)
    assert spark in str(containers)
