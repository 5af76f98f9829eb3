"""What the tests on a real API server share: the server, and a namespace for each test."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import support_kube_binaries
from icdc_api import crd
from icdc_api.errors import IcdcError
from support_kube import GIVEN, KubeApi
from support_kube_pipelines import Pipelines


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds the programs before the first test: a first build exceeds the time of a test."""
    here = Path(__file__).parent
    wanted = any(here in item.path.parents for item in session.items)
    if wanted and not session.config.option.collectonly and not os.environ.get(GIVEN):
        # The fixture meets the same error, and then says so for the tests that need it.
        with contextlib.suppress(IcdcError):
            support_kube_binaries.programs()


@pytest.fixture(scope="session")
def kube() -> Iterator[KubeApi]:
    """One control plane for the whole test run; it knows the kind of pipelines."""
    with KubeApi(crds=[crd.COMMITTED]) as running:
        yield running


@pytest.fixture
def namespace(kube: KubeApi) -> Iterator[str]:
    """A new namespace, deleted after the test."""
    with kube.namespace() as name:
        yield name


@pytest.fixture
def pipelines(kube: KubeApi, namespace: str) -> Pipelines:
    """The pipelines of the test's namespace, as an administrator."""
    return Pipelines(kube.kubectl, namespace)
