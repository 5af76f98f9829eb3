"""Which Secrets are mounted: those that something reads."""

from typing import Any

import pytest

from icdc_operator.manifests.secret_names import list_secret_names
from icdc_testing.operator.deciding.pipelines import make_spec

pytestmark = pytest.mark.unit


def make_ref(name: str) -> dict[str, Any]:
    return {"secretRef": {"name": name}}


def make_catalog(*secrets: str) -> dict[str, Any]:
    return {
        "properties": {"type": "rest"},
        "propertiesFrom": [make_ref(secret) for secret in secrets],
    }


def make_trusting_catalog(authority: str, *secrets: str) -> dict[str, Any]:
    return make_catalog(*secrets) | {"tls": {"caFrom": make_ref(authority)}}


def make_sink(**more: Any) -> dict[str, Any]:
    return {"opensearch": {"hosts": ["https://search:9200"], **more}}


def make_table(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "identifierColumns": ["id"], **more}


OWN = [
    make_table("a.b", catalog=make_catalog("own")),
    make_table("a.c", catalog=make_catalog("own", "second")),
]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, (), id="none"),
        pytest.param(
            {"catalog": make_catalog("b", "a")}, ("a", "b"), id="the shared catalog's, sorted"
        ),
        pytest.param(
            {"catalog": make_catalog("shared"), "tables": [*OWN, make_table("a.d")]},
            ("own", "second", "shared"),
            id="those of tables' own catalogs, each once",
        ),
        pytest.param(
            {"catalog": make_catalog("shared"), "tables": OWN},
            ("own", "second"),
            id="not the shared catalog's, when no table uses it",
        ),
        pytest.param(
            {
                "catalog": make_trusting_catalog("shared-ca", "shared"),
                "tables": [
                    make_table("a.b"),
                    make_table("a.c", catalog=make_trusting_catalog("own-ca")),
                ],
            },
            ("own-ca", "shared", "shared-ca"),
            id="the authorities of catalogs",
        ),
        pytest.param(
            {"sink": make_sink(credentialsFrom=make_ref("login"), tls={"caFrom": make_ref("ca")})},
            ("ca", "login"),
            id="the sink's",
        ),
        pytest.param(
            {"sink": make_sink(tls={"caFrom": make_ref("ca"), "insecureSkipVerify": True})},
            (),
            id="no authority, when every certificate is accepted",
        ),
        pytest.param(
            {"catalog": make_catalog("one"), "sink": make_sink(credentialsFrom=make_ref("one"))},
            ("one",),
            id="one for both, once",
        ),
    ],
)
def test_the_secrets_of_a_pipeline_are(spec: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert list_secret_names(make_spec(**spec)) == expected
