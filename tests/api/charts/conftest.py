"""What the tests of the charts share: Helm, built as the programs of the API server are."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from icdc_testing.kube import binaries
from icdc_testing.kube.charts.helm import Helm

HELM = os.environ.get("ICDC_HELM", "helm")
"""The program: `helm`, which is Helm 4, or `helm3`, for `make soak-helm`."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Build the programs before the time of a test begins.

    These tests have a server of their own even where a cluster is given.
    """
    if Path(__file__).parent in item.path.parents:
        binaries.try_to_build((*binaries.WITHOUT_NODES, HELM))
    return (yield)


@pytest.fixture(scope="session")
def helm() -> Iterator[Helm]:
    """Helm without a cluster."""
    with tempfile.TemporaryDirectory(prefix="icdc-helm-") as home:
        yield Helm(binaries.ensure_program(HELM), Path(home))
