"""Which Secrets are mounted: those that something reads."""

from typing import Any

import pytest

from icdc_operator.manifests.secret_names import list_secret_names
from icdc_testing.operator.deciding.pipelines import make_spec

pytestmark = pytest.mark.unit


def ref(name: str) -> dict[str, Any]:
    return {"secretRef": {"name": name}}


def catalog(*secrets: str) -> dict[str, Any]:
    return {"properties": {"type": "rest"}, "propertiesFrom": [ref(secret) for secret in secrets]}


def trusting(authority: str, *secrets: str) -> dict[str, Any]:
    return catalog(*secrets) | {"tls": {"caFrom": ref(authority)}}


def sink(**more: Any) -> dict[str, Any]:
    return {"opensearch": {"hosts": ["https://search:9200"], **more}}


def table(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "identifierColumns": ["id"], **more}


OWN = [table("a.b", catalog=catalog("own")), table("a.c", catalog=catalog("own", "second"))]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, (), id="none"),
        pytest.param({"catalog": catalog("b", "a")}, ("a", "b"), id="the shared catalog's, sorted"),
        pytest.param(
            {"catalog": catalog("shared"), "tables": [*OWN, table("a.d")]},
            ("own", "second", "shared"),
            id="those of tables' own catalogs, each once",
        ),
        pytest.param(
            {"catalog": catalog("shared"), "tables": OWN},
            ("own", "second"),
            id="not the shared catalog's, when no table uses it",
        ),
        pytest.param(
            {
                "catalog": trusting("shared-ca", "shared"),
                "tables": [table("a.b"), table("a.c", catalog=trusting("own-ca"))],
            },
            ("own-ca", "shared", "shared-ca"),
            id="the authorities of catalogs",
        ),
        pytest.param(
            {"sink": sink(credentialsFrom=ref("login"), tls={"caFrom": ref("ca")})},
            ("ca", "login"),
            id="the sink's",
        ),
        pytest.param(
            {"sink": sink(tls={"caFrom": ref("ca"), "insecureSkipVerify": True})},
            (),
            id="no authority, when every certificate is accepted",
        ),
        pytest.param(
            {"catalog": catalog("one"), "sink": sink(credentialsFrom=ref("one"))},
            ("one",),
            id="one for both, once",
        ),
    ],
)
def test_the_secrets_of_a_pipeline_are(spec: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert list_secret_names(make_spec(**spec)) == expected
