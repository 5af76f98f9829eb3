"""Namespaces in which operators may do what their Role says, with SparkApplications."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from icdc_testing.kube import rights
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.stored_pipelines import Pipelines
from icdc_testing.operator.kills.playing import StoryScope, Undisturbed, play_undisturbed
from icdc_testing.operator.kills.stories import STORIES, Story
from icdc_testing.waiting import wait

ACCOUNT = "icdc-operator"


@pytest.fixture
def account(kube: KubeApi, pipelines: Pipelines, spark_applications: None) -> Path:
    """The kubeconfig of an operator of the test's namespace."""
    return _create_account(kube, pipelines)


@pytest.fixture(scope="module", params=STORIES, ids=str)
def story(request: pytest.FixtureRequest) -> Story:
    """Each story; the tests of a file have it one after the other."""
    story_to_play: Story = request.param
    return story_to_play


@pytest.fixture(scope="module")
def scope(kube: KubeApi, spark_applications: None, story: Story) -> Iterator[StoryScope]:
    """A namespace for the story."""
    with kube.create_namespace() as name:
        account = _create_account(kube, Pipelines(kube.kubectl, name))
        yield StoryScope(story, name, kube.kubeconfig, account)


@pytest.fixture(scope="module")
def model(scope: StoryScope) -> Undisturbed:
    """The story as it should go: played once for all tests that disturb it."""
    return play_undisturbed(scope)


def _create_account(kube: KubeApi, pipelines: Pipelines) -> Path:
    default = ("get", "serviceaccount", "default")
    wait.wait_until(lambda: pipelines.run(*default).code == 0, "pods can be made")
    rights.create_account(pipelines, ACCOUNT, rights.OPERATOR)
    return kube.write_kubeconfig_for(pipelines.namespace, ACCOUNT)
