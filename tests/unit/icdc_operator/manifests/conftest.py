"""Launches to make manifests from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from icdc_api.crd import loading
from icdc_api.status.runs import RunKind, RunStatus
from icdc_operator.manifests.launch import InstallSettings, Launch, PipelineRef
from icdc_testing.operator.deciding.pipelines import make_spec

RUN = RunStatus(
    name="shop-e12-3",
    kind=RunKind.EXPORT,
    sequence=12,
    attempt=3,
    epoch=1772366400000,
    run_id="shop-e12-3.1772366400000",
)
DELETION = RUN.model_copy(
    update={"name": "shop-d13-1", "kind": RunKind.DELETION, "run_id": "shop-d13-1.1772366400000"}
)
OWNER = PipelineRef("retail", "shop", "3f0c1a52-7f0e-4d52-9f6b-0c8f5a7e2d11")
SETTINGS = InstallSettings(
    image="iceberg-cdc-operator-spark:0.1.0",
    image_pull_policy="IfNotPresent",
    image_pull_secrets=("registry",),
)


@pytest.fixture
def launch() -> Callable[..., Launch]:
    """A launch of a pipeline with the given parts of a spec."""

    def make(*, settings: InstallSettings = SETTINGS, run: RunStatus = RUN, **spec: Any) -> Launch:
        return Launch(OWNER, run, make_spec(**spec), settings)

    return make


@pytest.fixture
def launch_of() -> Callable[[Path], tuple[Launch, dict[str, Any]]]:
    """The launch of the pipeline in a file, and the resource itself."""

    def load(path: Path) -> tuple[Launch, dict[str, Any]]:
        # As the operator gets it from the cluster, where no `${NAME}` is replaced.
        resource = yaml.safe_load(path.read_text())
        spec = loading.parse_pipeline(resource, source=path.name).spec
        run = DELETION if path.stem == "deletion" else RUN
        return Launch(OWNER, run, spec, SETTINGS), resource

    return load
