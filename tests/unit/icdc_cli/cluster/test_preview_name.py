"""`icdc preview NAME`: a pipeline of a cluster, previewed on this host with the caller's rights."""

import base64
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from icdc_api.job.modes import RunMode
from icdc_cli import main
from icdc_cli.local import application, ask
from icdc_cli.local.resource import LocalPipeline
from icdc_testing.kube.api_stub import ApiStub, Object
from icdc_testing.operator.deciding.pipelines import make_spec

pytestmark = pytest.mark.unit

SECRETS = "/api/v1/namespaces/default/secrets"
ORDERS = {"name": "shop.orders", "index": "orders", "documents": [], "mapping": {}}
UNREACHABLE = {"name": "shop.orders", "reason": "SourceUnavailable", "message": "no such host"}
TARGET = {"hosts": ["https://search:9200"], "credentialsFrom": {"secretRef": {"name": "search"}}}


class AnsweringHost:
    """Stands in place of Spark on this host, and notes what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[LocalPipeline, RunMode, Mapping[str, Any]]] = []
        self.secrets_dir = Path()
        self.files: dict[str, bytes] = {}
        self.tables: list[Object] = [ORDERS]
        monkeypatch.setattr(application, "find_installed", lambda _spec: None)
        monkeypatch.setattr(ask, "ask", self.answer)

    def answer(
        self, local: LocalPipeline, mode: RunMode, *, secrets_dir: Path, **details: Any
    ) -> Object:
        del details["application"]
        self.asked.append((local, mode, details))
        self.secrets_dir = secrets_dir
        assert stat.S_IMODE(secrets_dir.stat().st_mode) == 0o700
        files = [path for path in secrets_dir.rglob("*") if path.is_file()]
        self.files = {str(path.relative_to(secrets_dir)): path.read_bytes() for path in files}
        return {"tables": self.tables}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> AnsweringHost:
    return AnsweringHost(monkeypatch)


@pytest.fixture
def catalog(api: ApiStub) -> Object:
    """The properties of the pipeline's catalog, beside those of the Secret `lake`."""
    properties = {"type": "rest", "uri": "http://lake:8181", "header.team": "${HOME}"}
    spec = make_spec("shop.orders").to_resource()
    spec["catalog"] = {
        "properties": properties,
        "propertiesFrom": [{"secretRef": {"name": "lake"}}],
    }
    spec["sink"] = {"opensearch": TARGET}
    spec["spark"] = {"conf": {"spark.driver.extraJavaOptions": "-XX:OnError=touch"}}
    api.add_pipeline({"metadata": {"name": "shop"}, "spec": spec})
    encoded = base64.b64encode(b"id:secret\n").decode()
    api.documents[f"{SECRETS}/lake"] = {"data": {"credential": encoded}}
    return properties


@pytest.mark.usefixtures("catalog")
def test_a_pipeline_is_previewed_on_this_host_with_the_secrets_of_its_catalog(
    api: ApiStub, host: AnsweringHost, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["preview", "shop", "--rows", "3", "--table", "shop.orders"]) == 0
    assert capsys.readouterr().out.startswith("shop.orders   index orders")
    ((local, mode, details),) = host.asked
    assert (mode, details) == (RunMode.PREVIEW, {"only": ["shop.orders"], "rows": 3})
    assert local.pipeline.owner == "default/shop"
    assert host.files == {"lake/credential": b"id:secret\n"}
    assert not host.secrets_dir.exists()
    # Neither the target's Secret nor an annotation: nothing is written into the cluster.
    assert all(request.startswith("GET ") for request in api.asked)
    spec = local.request["spec"]
    assert spec["sink"]["opensearch"]["hosts"] == ["http://opensearch.invalid:9200"]
    assert spec["catalog"]["properties"]["header.team"] == "${HOME}"
    assert "spark" not in spec


@pytest.mark.usefixtures("catalog")
def test_secrets_in_files_are_used_instead_of_those_of_the_cluster(
    api: ApiStub, host: AnsweringHost, tmp_path: Path
) -> None:
    del api.documents[f"{SECRETS}/lake"]
    given = tmp_path / "secrets"
    (given / "lake").mkdir(parents=True)
    (given / "lake" / "token").write_text("t")
    given.chmod(0o700)
    assert main.main(["preview", "shop", "--secrets-dir", str(given)]) == 0
    assert host.files == {"lake/token": b"t"}
    assert given.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "preview: give either NAME, a pipeline in a cluster, or -f PIPELINE.yaml"),
        (["shop", "-f", "shop.yaml"], "preview: give either NAME, a pipeline in a cluster, or -f"),
        (["shop", "--state-dir", "d"], "--state-dir is allowed only with -f"),
        (["shap"], "there is no IcebergCDCPipeline shap in the namespace default; did you mean"),
        (["shop", "--table", "shop.order"], "icebergcdcpipeline/shop has no such table; it has"),
    ],
)
@pytest.mark.usefixtures("catalog", "host")
def test_what_cannot_be_previewed_is_said(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["preview", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "there is no Secret lake in the namespace default"),
        (403, "(status 403); or give the Secret lake as files, with --secrets-dir"),
    ],
)
@pytest.mark.usefixtures("catalog")
def test_a_secret_that_cannot_be_read_is_named_with_its_field(
    status: int,
    message: str,
    api: ApiStub,
    host: AnsweringHost,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    refusal = (status, {"kind": "Status", "code": status, "message": "no"})
    monkeypatch.setattr(
        api, "find_document", lambda _method, path: refusal if SECRETS in path else None
    )
    assert main.main(["preview", "shop"]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("icdc: spec.catalog.propertiesFrom[0]: ")
    assert message in printed
    assert not host.asked


@pytest.mark.parametrize("is_secret", [True, False])
def test_no_variable_of_who_asks_is_sent_to_a_catalog(
    is_secret: bool,
    api: ApiStub,
    catalog: Object,
    host: AnsweringHost,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if is_secret:
        encoded = base64.b64encode(b"env:HOME").decode()
        api.documents[f"{SECRETS}/lake"] = {"data": {"header.x": encoded}}
    else:
        catalog["header.x"] = "env:HOME"
    assert main.main(["preview", "shop"]) == 2
    assert "header.x: a value that begins with env: is a variable" in capsys.readouterr().err
    assert not host.asked


@pytest.mark.usefixtures("catalog")
def test_a_catalog_that_only_the_cluster_reaches_is_explained(
    host: AnsweringHost, capsys: pytest.CaptureFixture[str]
) -> None:
    host.tables = [UNREACHABLE]
    assert main.main(["preview", "shop"]) == 3
    printed = capsys.readouterr()
    assert "SourceUnavailable: no such host" in printed.out
    assert "must be reachable from here, not only from the cluster" in printed.err
