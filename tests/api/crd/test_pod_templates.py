"""A real API server reads pod templates as the operator says that spark-operator can.

Its PodTemplates hold a PodTemplateSpec, decoded by the same Go code as that of spark-operator: what
this cannot decode is answered by 400, whatever else is wrong by 422.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from kubernetes import config

import pod_template_types
from icdc_operator.manifests.pods import shapes
from icdc_testing.kube import binaries
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.operator.deciding.pod_templates import (
    NO_QUANTITIES,
    NO_TIMES,
    UNREADABLE,
    draw_damaged,
    make_container,
    make_every_field,
    make_volume,
)

pytestmark = pytest.mark.api

Reads = Callable[[dict[str, Any]], bool]


@pytest.fixture(scope="module")
def reads(kube: KubeApi) -> Reads:
    """Return a function that is True if the API server can decode a template.

    Unknown fields do not matter to it.
    """
    api = config.new_client_from_config(str(kube.kubeconfig))  # type: ignore[no-untyped-call]
    token = api.configuration.get_api_key_with_prefix("BearerToken")
    headers = {"Content-Type": "application/json", "Authorization": token}
    path = "/api/v1/namespaces/default/podtemplates?dryRun=All&fieldValidation=Ignore"

    def ask(template: dict[str, Any]) -> bool:
        answer = api.rest_client.request(
            "POST",
            f"{api.configuration.host}{path}",
            headers=headers,
            body={"metadata": {"generateName": "t-"}, "template": template},
        )
        assert answer.status in (201, 400, 422), answer.reason
        return bool(answer.status != 400)

    return ask


def test_the_types_are_those_of_the_api_server(kube: KubeApi) -> None:
    document = json.loads(kube.kubectl.run_ok("get", "--raw", "/openapi/v3/api/v1"))
    committed = Path(pod_template_types.COMMITTED).read_text(encoding="utf-8")
    known = json.loads(committed)
    for name, fields in pod_template_types.list_types(document).items():
        assert fields.items() <= known[name].items()
    # The file is that of the newest server; an older one has fewer fields.
    if not binaries.IS_OLDER:
        assert pod_template_types.render(document) == committed


def test_a_template_with_every_field_can_be_decoded(reads: Reads) -> None:
    assert reads(make_every_field())


@pytest.mark.parametrize("template", [template for template, _ in UNREADABLE])
def test_what_is_refused_as_unreadable_cannot_be_decoded(
    reads: Reads, template: dict[str, Any]
) -> None:
    assert not reads(template)


@pytest.mark.parametrize("quantity", NO_QUANTITIES)
def test_what_is_refused_as_a_quantity_cannot_be_decoded(reads: Reads, quantity: str) -> None:
    assert not reads(make_container(resources={"limits": {"cpu": quantity}}))


@pytest.mark.parametrize("time", NO_TIMES)
def test_what_is_refused_as_a_time_cannot_be_decoded(reads: Reads, time: str) -> None:
    metadata = {"creationTimestamp": time}
    assert not reads(make_volume(ephemeral={"volumeClaimTemplate": {"metadata": metadata}}))


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(template=draw_damaged())
def test_whatever_is_accepted_can_be_decoded(reads: Reads, template: dict[str, Any]) -> None:
    accepted = not list(shapes.find_problems(template, ("t",)))
    assert reads(template) or not accepted
