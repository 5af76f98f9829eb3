"""`icdc plan NAME`: the Secrets for as long as the answer takes, and words for what lacks."""

import base64
import json
import os
import signal
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icdc_api.errors import SourceUnavailable, TargetUnavailable
from icdc_api.job import RunMode
from icdc_api.runs import Failure
from icdc_operator.cli import main, questions
from icdc_operator.local import application
from icdc_operator.local.application import Application
from icdc_operator.local.resource import LocalPipeline
from support_api_stub import ApiStub, Object
from support_pipelines import make_spec

pytestmark = pytest.mark.unit

Answer = dict[str, Any] | Failure
BINARY = b"\x00\xff\n"
RESULT = {"tables": [{"name": "shop.orders", "index": "orders", "mode": "Export"}]}


class Spark:
    """The border to Spark: what it was asked, and what it found of the Secrets."""

    def __init__(self) -> None:
        self.answer: Callable[[], Answer] = lambda: dict(RESULT)
        self.asked: LocalPipeline | None = None
        self.folder: Path | None = None
        self.found: dict[str, bytes] = {}
        self.modes: set[int] = set()

    def ask(
        self,
        local: LocalPipeline,
        mode: RunMode,
        *,
        application: Application,
        secrets_dir: Path | None,
    ) -> Answer:
        assert mode == RunMode.PLAN
        self.asked, self.folder = local, secrets_dir
        assert secrets_dir is not None
        files = [each for each in secrets_dir.rglob("*") if each.is_file()]
        self.found = {str(each.relative_to(secrets_dir)): each.read_bytes() for each in files}
        every = [secrets_dir, *secrets_dir.rglob("*")]
        self.modes = {stat.S_IMODE(each.stat().st_mode) for each in every}
        return self.answer()

    @property
    def left(self) -> bool:
        assert self.folder is not None
        return self.folder.exists()


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch, fake_application: Application) -> Spark:
    played = Spark()
    monkeypatch.setattr(questions, "ask", played.ask)
    monkeypatch.setattr(application, "installed", lambda _spec: fake_application)
    return played


def put(api: ApiStub, **values: bytes) -> None:
    data = {
        name.replace("_", "."): base64.b64encode(each).decode() for name, each in values.items()
    }
    api.secrets["default", "lake"] = {"metadata": {"name": "lake"}, "data": data}


def with_secret(api: ApiStub, **spec: Any) -> Object:
    catalog = {
        "properties": {"type": "jdbc", "uri": "jdbc:sqlite:lake"},
        "propertiesFrom": [{"secretRef": {"name": "lake"}}],
    }
    resource = make_spec("shop.orders", catalog=catalog, **spec).to_resource()
    return api.add_pipeline({"metadata": {"name": "shop"}, "spec": resource})


def test_spark_gets_the_pipeline_and_its_secrets_for_as_long_as_it_is_asked(
    api: ApiStub, spark: Spark, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = with_secret(api)
    put(api, user=b"jane\n", ca_crt=BINARY)
    assert main.main(["plan", "shop"]) == 0
    assert spark.asked is not None
    assert spark.asked.request["spec"] == pipeline["spec"]
    assert spark.asked.pipeline.owner == "default/shop"
    assert spark.found == {"lake/user": b"jane\n", "lake/ca.crt": BINARY}
    assert spark.modes == {0o700, 0o600}
    assert not spark.left
    first, head, row = capsys.readouterr().out.splitlines()
    assert first.startswith("The operator: unknown: no operator has seen the pipeline yet")
    assert (head.split()[0], row.split()[0]) == ("NAME", "shop.orders")


def crash() -> Answer:
    raise RuntimeError("boom")


def interrupt() -> Answer:
    raise KeyboardInterrupt


def end() -> Answer:
    os.kill(os.getpid(), signal.SIGTERM)
    raise AssertionError("it has not ended")


@pytest.mark.parametrize(("happens", "code"), [(crash, 1), (interrupt, 130), (end, 143)])
def test_no_secret_is_left_whatever_happens(
    happens: Callable[[], Answer],
    code: int,
    api: ApiStub,
    spark: Spark,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with_secret(api)
    put(api, user=b"jane-secret")
    spark.answer = happens
    before = signal.getsignal(signal.SIGTERM)
    try:
        left = main.main(["plan", "shop"])
    except SystemExit as ended:
        left = int(str(ended.code))
    assert left == code
    assert not spark.left
    assert signal.getsignal(signal.SIGTERM) is before
    assert "jane-secret" not in "".join(capsys.readouterr())


def test_a_directory_that_is_given_goes_before_the_secrets_of_the_cluster(
    api: ApiStub, spark: Spark, tmp_path: Path
) -> None:
    with_secret(api)
    (tmp_path / "lake").mkdir()
    assert main.main(["plan", "shop", "--secrets-dir", str(tmp_path)]) == 0
    assert spark.folder == tmp_path
    assert spark.left
    assert not any("secrets" in each for each in api.asked)


FORBIDDEN = (
    'secrets "lake" is forbidden: User "jane" cannot get resource "secrets" in API group "" in the '
    'namespace "default"'
)


@pytest.mark.parametrize(
    ("failure", "data", "said"),
    [
        (
            (403, FORBIDDEN),
            None,
            'missing: {apiGroups: [""], resources: ["secrets"], verbs: ["get"]}, or give',
        ),
        (
            None,
            None,
            "the Secret 'lake' of the namespace default, which the pipeline names, is not",
        ),
        (None, {"user": "?"}, "the Secret 'lake' holds something else than base64 at 'user'"),
    ],
)
def test_a_secret_that_cannot_be_had_is_bad_usage_with_what_helps(
    failure: tuple[int, str] | None,
    data: Object | None,
    said: str,
    api: ApiStub,
    spark: Spark,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with_secret(api)
    api.secrets_failure = failure
    if data is not None:
        api.secrets["default", "lake"] = {"metadata": {"name": "lake"}, "data": data}
    assert main.main(["plan", "shop"]) == 2
    assert said in capsys.readouterr().err
    assert spark.asked is None


INSIDE = "search.svc.cluster.local"


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of the cluster mean nothing here."""
    known = socket.getaddrinfo

    def asked(host: str, *more: Any, **how: Any) -> Any:
        if host == INSIDE:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return known(host, *more, **how)

    monkeypatch.setattr(socket, "getaddrinfo", asked)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            {"sink": {"opensearch": {"hosts": [f"https://{INSIDE}:9200"]}}},
            f"icdc: the host of https://{INSIDE}:9200 (spec.sink.opensearch.hosts) is not known",
        ),
        (
            {"catalog": {"properties": {"type": "rest", "uri": f"http://u:p@{INSIDE}/api"}}},
            f"icdc: the host of http://{INSIDE} (the property uri of the catalog) is not known",
        ),
    ],
)
@pytest.mark.usefixtures("outside")
def test_a_host_that_only_the_cluster_knows_is_said_before_spark_starts(
    spec: Object, said: str, api: ApiStub, spark: Spark, capsys: pytest.CaptureFixture[str]
) -> None:
    resource = make_spec("shop.orders", **spec).to_resource()
    api.add_pipeline({"metadata": {"name": "shop"}, "spec": resource})
    assert main.main(["plan", "shop"]) == 3
    printed = capsys.readouterr()
    assert printed.out.startswith("The operator: ")
    assert printed.err.startswith(said)
    assert "kubectl port-forward" in printed.err
    assert spark.asked is None


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Failure.of(TargetUnavailable("search refuses")), 3),
        ({"tables": [{"name": "a", "reason": SourceUnavailable.__name__, "message": "no"}]}, 1),
    ],
)
def test_what_could_not_be_reached_may_be_reached_from_inside(
    answer: Answer, code: int, api: ApiStub, spark: Spark, capsys: pytest.CaptureFixture[str]
) -> None:
    with_secret(api)
    put(api)
    spark.answer = lambda: answer
    assert main.main(["plan", "shop"]) == code
    assert "run icdc in a pod of the cluster" in capsys.readouterr().err


def test_data_for_programs_has_the_next_step_as_a_field(
    api: ApiStub, spark: Spark, capsys: pytest.CaptureFixture[str]
) -> None:
    with_secret(api)
    put(api)
    assert main.main(["plan", "shop", "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert list(shown) == ["operator", "tables"]
    assert shown["operator"].startswith("unknown: ")


@pytest.mark.parametrize("arguments", [["plan"], ["plan", "shop", "-f", "x.yaml"]])
def test_either_a_name_or_a_file_is_planned(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(arguments) == 2
    assert "either NAME" in capsys.readouterr().err
