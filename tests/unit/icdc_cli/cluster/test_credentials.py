"""Who asks the API server, by what a kubeconfig says of the user."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from icdc_api.errors import BadSpec
from icdc_cli import main
from icdc_cli.cluster import credentials
from icdc_testing.kube.api_stub import ApiStub

pytestmark = pytest.mark.unit

PLUGIN = """#!/bin/sh
test "$1" = login || exit 1
test "$REGION" = north || exit 1
echo "$KUBERNETES_EXEC_INFO" > "$(dirname "$0")/info"
echo '{"status": {"token": "from-plugin"}}'
"""


def write_kubeconfig(folder: Path, user: dict[str, Any], **cluster: Any) -> dict[str, str]:
    """Return the environment of somebody whose kubeconfig has this user."""
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "here",
    }
    path = folder / "config"
    path.write_text(json.dumps(document))
    return {"KUBECONFIG": str(path)}


@pytest.fixture
def plugin(tmp_path: Path) -> dict[str, Any]:
    """A credential plugin beside the kubeconfig."""
    path = tmp_path / "bin" / "plugin"
    path.parent.mkdir()
    path.write_text(PLUGIN)
    path.chmod(0o755)
    return {
        "apiVersion": credentials.EXEC_VERSIONS[0],
        "command": "./bin/plugin",
        "args": ["login"],
        "env": [{"name": "REGION", "value": "north"}, {"name": "EMPTY"}],
        "provideClusterInfo": True,
    }


def test_a_token_a_file_and_a_password_are_sent(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("newer\n")
    basic = base64.b64encode(b"jane:p:w").decode()
    for user, header in (
        ({"token": "t"}, "Bearer t"),
        # The file is renewed by others; the token beside it is what it began with.
        ({"token": "t", "tokenFile": "token"}, "Bearer newer"),
        ({"username": "jane", "password": "p:w"}, f"Basic {basic}"),
    ):
        login = credentials.read_login(write_kubeconfig(tmp_path, user), "here")
        assert (login.server, login.tls) == ("http://127.0.0.1:1", None)
        assert login.headers == {"Authorization": header}
    assert credentials.read_login(write_kubeconfig(tmp_path, {}), "here").headers == {}


def test_a_credential_plugin_is_asked_by_its_protocol(
    tmp_path: Path, plugin: dict[str, Any]
) -> None:
    env = write_kubeconfig(tmp_path, {"exec": plugin}, **{"tls-server-name": "api"})
    login = credentials.read_login(env, "here")
    assert login.headers == {"Authorization": "Bearer from-plugin"}
    assert login.server_name == "api"
    info = json.loads((tmp_path / "bin" / "info").read_text())
    assert (info["kind"], info["apiVersion"]) == ("ExecCredential", plugin["apiVersion"])
    assert info["spec"]["cluster"]["server"] == "http://127.0.0.1:1/"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"command": "./none", "installHint": "get it from us"}, "was not found: get it from us"),
        ({"args": []}, "gave no credentials"),
        ({"apiVersion": "v7"}, "has the apiVersion v7; supported: "),
        ({"env": [{"value": "north"}]}, "cannot be used: .* KeyError: 'name'"),
        ({"env": ["REGION"]}, "cannot be used: .* TypeError: "),
        ({"env": [["REGION"]]}, "cannot be used: .* TypeError: "),
        ({"args": 1}, "cannot be used: .* TypeError: "),
    ],
)
def test_a_credential_plugin_that_fails_says_why(
    change: dict[str, Any], said: str, tmp_path: Path, plugin: dict[str, Any]
) -> None:
    with pytest.raises(BadSpec, match=said):
        credentials.read_login(write_kubeconfig(tmp_path, {"exec": plugin | change}), "here")


def test_a_credential_plugin_that_is_no_mapping_is_bad_usage(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match=r"cannot be used: .* AttributeError: "):
        credentials.read_login(write_kubeconfig(tmp_path, {"exec": "plugin"}), "here")


@pytest.mark.parametrize(
    ("user", "cluster", "said"),
    [
        ({"tokenFile": "none"}, {}, "none cannot be read"),
        ({}, {"server": "https://api", "certificate-authority": "none"}, "cannot be used"),
        ({}, {"server": "https://api", "certificate-authority-data": "%"}, "is not base64"),
        ({}, {"server": "https://api", "certificate-authority-data": "eA=="}, "cannot be used"),
        ({}, {"server": ""}, "no server for the context here"),
        ({}, {"server": "api"}, "server of the context here is not a URL"),
        ({}, {"server": "https://[::1"}, "server of the context here is not a URL"),
        ({}, {"server": "https://api:99999"}, "server of the context here is not a URL"),
    ],
)
def test_what_cannot_be_read_is_bad_usage(
    user: dict[str, Any], cluster: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(BadSpec, match=said):
        credentials.read_login(write_kubeconfig(tmp_path, user, **cluster), "here")


def test_the_contexts_there_are_are_listed(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match="has no context there; it has: here"):
        credentials.read_login(write_kubeconfig(tmp_path, {}), "there")


def test_nothing_says_which_cluster_is_meant(tmp_path: Path) -> None:
    env = write_kubeconfig(tmp_path, {})
    with pytest.raises(BadSpec, match="has no current context: use --context"):
        credentials.read_login(env, None)


@pytest.mark.usefixtures("shop")
def test_a_user_with_an_auth_provider_takes_the_larger_client(
    api: ApiStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = ({"alg": "none"}, {"exp": 9_999_999_999})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts]
    token = ".".join([*(part.rstrip("=") for part in encoded), "x"])
    provider = {"auth-provider": {"name": "oidc", "config": {"id-token": token}}}
    env = write_kubeconfig(tmp_path, provider, server=api.url)
    monkeypatch.setenv("KUBECONFIG", env["KUBECONFIG"])
    with pytest.raises(credentials.NeedsLibrary):
        credentials.read_login(env, "here")
    assert main.main(["pause", "shop"]) == 0
