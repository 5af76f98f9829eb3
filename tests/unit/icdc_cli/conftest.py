"""Fixtures of the command line's unit tests: pipelines, and an application without Spark."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from icdc_cli.local import application
from icdc_cli.local.application import Application


@pytest.fixture
def fake_application() -> Application:
    """The scripted application in place of Spark."""
    return Application(
        main_file=Path(__file__).with_name("fake_application.py"),
        python=sys.executable,
        java_home=None,
    )


@pytest.fixture
def scripted(
    monkeypatch: pytest.MonkeyPatch, fake_application: Application, tmp_path: Path
) -> None:
    """The border to Spark is a scripted application; the working directory is empty."""
    monkeypatch.setattr(application, "find_installed", lambda _spec: fake_application)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def pipeline_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a PIPELINE.yaml whose fake application behaves as asked; further keys go to spec."""

    def write(fake: str = "succeed", **spec: Any) -> Path:
        document = {
            "apiVersion": "icebergcdc.dev/v1alpha1",
            "kind": "IcebergCDCPipeline",
            "metadata": {"name": "shop", "annotations": {"fake": fake}},
            "spec": {
                "catalog": {"properties": {"type": "hadoop", "warehouse": "/nowhere"}},
                "tables": [{"name": "shop.orders", "identifierColumns": ["id"]}],
                "sink": {"opensearch": {"hosts": ["http://127.0.0.1:1"]}},
                "retry": {"maxAttempts": 3, "initialSeconds": 1, "maxSeconds": 1},
                **spec,
            },
        }
        path = tmp_path / "pipeline.yaml"
        path.write_text(yaml.safe_dump(document))
        return path

    return write
