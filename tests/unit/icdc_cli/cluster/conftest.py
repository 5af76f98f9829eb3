"""A stub of an API server, and a person whose kubeconfig names it."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from icdc_cli.cluster.awaiting import loop
from icdc_testing.kube.api_stub import ApiStub, Object, serve_stub
from icdc_testing.operator.deciding.pipelines import make_spec
from icdc_testing.operator.resync_statuses import BEFORE


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiStub]:
    stub = ApiStub()
    with serve_stub(stub):
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(build_kubeconfig(stub.url)), encoding="utf-8")
        monkeypatch.setenv("KUBECONFIG", str(path))
        yield stub


@pytest.fixture
def shop(api: ApiStub) -> Object:
    """A pipeline of two tables in the namespace of the context."""
    spec = make_spec("shop.orders", "shop.customers").to_resource()
    return api.add_pipeline({"metadata": {"name": "shop"}, "spec": spec})


@pytest.fixture
def play(
    shop: Object, api: ApiStub, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Iterable[Object | BaseException]], None]:
    """Set the statuses that the first, the second, … reading after the request returns."""
    shop["spec"] |= {"resync": {"nonce": 4}, "restartNonce": 4}
    shop["status"] = BEFORE

    def prepare(statuses: Iterable[Object | BaseException]) -> None:
        left = iter(statuses)

        def show_next(*_: object) -> None:
            status = next(left)
            if isinstance(status, BaseException):
                raise status
            shop["status"] = status

        api.after_patch = show_next
        monkeypatch.setattr(loop, "_sleep", show_next)

    return prepare


def build_kubeconfig(url: str) -> Object:
    """Return two contexts in one cluster; the current one says nothing about a namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "there", "context": {"cluster": "c", "user": "u", "namespace": "lake"}},
        ],
        "current-context": "here",
    }
