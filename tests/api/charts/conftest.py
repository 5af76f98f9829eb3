"""What the tests of the charts share: Helm, built as the programs of the API server are."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from icdc_api.errors import IcdcError
from icdc_testing.kube import binaries
from icdc_testing.kube.charts.helm import Helm

HELM = os.environ.get("ICDC_HELM", "helm")
"""The program: `helm`, which is Helm 4, or `helm3`, for `make soak-helm`."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the programs before the first test: a first build exceeds the time of a test."""
    here = Path(__file__).parent
    wanted = any(here in item.path.parents for item in session.items)
    if wanted and not session.config.option.collectonly:
        # The fixture meets the same error, and then says so for the tests that need it. These
        # tests have a server of their own even where a cluster is given.
        with contextlib.suppress(IcdcError):
            binaries.ensure_programs((*binaries.WITHOUT_NODES, HELM))


@pytest.fixture(scope="session")
def helm() -> Iterator[Helm]:
    """Helm without a cluster."""
    with tempfile.TemporaryDirectory(prefix="icdc-helm-") as home:
        yield Helm(binaries.ensure_program(HELM), Path(home))
