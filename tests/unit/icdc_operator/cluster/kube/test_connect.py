"""How the API server is found."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from icdc_api.errors import BadSpec
from icdc_operator.cluster.kube import connect

pytestmark = pytest.mark.unit


def _write_kubeconfig(path: Path, server: str = "https://127.0.0.1:1") -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [{"name": "a", "user": {"token": "secret"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config))
    return path


def _load_configuration(env: dict[str, str], **more: Any) -> Any:
    return asyncio.run(connect.load_configuration(env, **more))


def test_a_kubeconfig_that_is_named_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    _write_kubeconfig(tmp_path / ".kube" / "config", "https://127.0.0.1:2")
    named = _write_kubeconfig(tmp_path / "named")
    env = {connect.KUBECONFIG: str(named), connect.IN_CLUSTER: "10.0.0.1"}
    assert _load_configuration(env).host == "https://127.0.0.1:1"
    assert _load_configuration({}).host == "https://127.0.0.1:2"


@pytest.mark.parametrize(
    ("text", "context"),
    [
        (None, None),
        ("", None),
        ("{", None),
        ("[]", None),
        ("kind: Config", None),
        ("clusters: 5", None),
        ("clusters: [5]\ncontexts: [{}]\nusers: []", None),
        ("valid", "other"),
    ],
)
def test_a_kubeconfig_that_is_of_no_use_is_said(
    tmp_path: Path, text: str | None, context: str | None
) -> None:
    path = tmp_path / "config"
    if text == "valid":
        _write_kubeconfig(path)
    elif text is not None:
        path.write_text(text)
    with pytest.raises(BadSpec):
        _load_configuration({connect.KUBECONFIG: str(path)}, context=context)


def test_a_pod_without_a_token_is_said() -> None:
    with pytest.raises(BadSpec, match="the configuration of the cluster"):
        _load_configuration({connect.IN_CLUSTER: "10.0.0.1"})
