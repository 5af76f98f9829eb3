"""What the tests on a real API server share: the server, and a namespace for each test."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from icdc_api.crd import generator
from icdc_testing.kube import binaries
from icdc_testing.kube.api_server import GIVEN, KubeApi
from icdc_testing.kube.stored_pipelines import Pipelines
from icdc_testing.waiting import dealing, wait


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Build the programs before the time of a test begins."""
    if Path(__file__).parent in item.path.parents and not os.environ.get(GIVEN):
        binaries.try_to_build()
    return (yield)


SPARK_APPLICATIONS = Path(__file__).parent / "sparkapplications.yaml"

_RUNNING = contextlib.ExitStack()
"""The control plane, if it runs."""


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the control plane after the last test that needs it: idle it takes a tenth of a core."""
    if dealing.is_last_below(Path(__file__).parent, nextitem):
        _RUNNING.close()


@pytest.fixture(scope="session")
def kube() -> Iterator[KubeApi]:
    """One control plane for all these tests; it knows the kind of pipelines."""
    with _RUNNING:
        yield _RUNNING.enter_context(KubeApi(crds=[generator.COMMITTED]))


@pytest.fixture(scope="session")
def spark_applications(kube: KubeApi) -> None:
    """The kind of SparkApplications, by a stand-in without a schema."""
    if kube.kubectl.run("get", "sparkapplications", "--all-namespaces").code == 0:
        return  # a given cluster may have spark-operator's own
    kube.kubectl.run_ok("apply", "--server-side", "-f", str(SPARK_APPLICATIONS))
    wait.wait_until(
        lambda: kube.kubectl.run("get", "sparkapplications", "--all-namespaces").code == 0,
        "the kind is served",
    )


@pytest.fixture
def namespace(kube: KubeApi) -> Iterator[str]:
    """A new namespace, deleted after the test."""
    with kube.create_namespace() as name:
        yield name


@pytest.fixture
def pipelines(kube: KubeApi, namespace: str) -> Pipelines:
    """The pipelines of the test's namespace, as an administrator."""
    return Pipelines(kube.kubectl, namespace)
