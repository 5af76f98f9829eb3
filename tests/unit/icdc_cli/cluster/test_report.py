"""`icdc report`: what it holds, and that none of many marked secrets is in it."""

import base64
import io
import itertools
import json
import tarfile
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

from icdc_cli import main
from icdc_cli.doctor.bundle.masking import MASK, Masker
from icdc_testing.kube.api_stub import ApiStub, Object, make_driver_pod
from icdc_testing.operator.deciding.pipelines import make_spec

pytestmark = pytest.mark.unit

TEAM = "/api/v1/namespaces/default"
_NUMBERS = itertools.count(1)


class Marks:
    """Values that must not be found in a bundle."""

    def __init__(self) -> None:
        self.values: list[str] = []

    def make(self) -> str:
        """Return a value with characters that JSON and URLs write in another way."""
        self.values.append(f'pass"word/{next(_NUMBERS)}+marked')
        return self.values[-1]

    def make_plain(self) -> str:
        """Return a value that a URL may hold."""
        self.values.append(f"marked{next(_NUMBERS)}value")
        return self.values[-1]

    def find_in(self, text: str) -> list[str]:
        """Return the values that stand in a text in any form."""
        return [
            value
            for value in self.values
            if any(
                form in text
                for form in (
                    *(value, quote(value, safe=""), value.replace('"', '\\"')),
                    base64.b64encode(value.encode()).decode(),
                )
            )
        ]


def encode(**data: str) -> Object:
    return {"data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}}


def write_spec(marks: Marks) -> Object:
    """Return a spec with a secret in each place that may hold one."""
    spec = make_spec("shop.orders").to_resource()
    spec["catalog"] = {
        "properties": {
            "type": "rest",
            "uri": f"https://u:{marks.make_plain()}@lake/x?password={marks.make_plain()}",
            "s3.secret-access-key": marks.make(),
            "header.X-Team": marks.make(),
        },
        "propertiesFrom": [{"secretRef": {"name": "lake"}}],
    }
    spec["tables"][0]["catalog"] = {"properties": {"type": "rest", "credential": marks.make()}}
    spec["sink"]["opensearch"]["credentialsFrom"] = {"secretRef": {"name": "search"}}
    container = {
        "name": "spark-kubernetes-driver",
        "env": [{"name": "HARMLESS", "value": marks.make()}],
        "args": ["--password", marks.make()],
    }
    spec["spark"] = {
        "conf": {
            "spark.hadoop.fs.s3a.secret.key": marks.make(),
            "spark.driver.extraJavaOptions": f"-Djavax.trustStorePassword={marks.make_plain()}",
        },
        "driver": {"template": {"spec": {"containers": [container]}}},
    }
    return spec


def make_application(marks: Marks) -> Object:
    return {
        "metadata": {"name": "shop-e1-1", "annotations": {"a": marks.make()}},
        "spec": {
            "sparkConf": {"spark.sql.catalog.lake.x": marks.make()},
            "driver": {"env": [{"name": "A", "value": marks.make()}]},
        },
    }


def make_operator(marks: Marks) -> Object:
    variable = {"name": "B", "value": marks.make()}
    return {
        "metadata": {"name": "icdc-0", "namespace": "icdc"},
        "spec": {"containers": [{"name": "operator", "env": [variable]}]},
        "status": {"phase": "Running"},
    }


def make_event(note: str) -> Object:
    return {
        "regarding": {"kind": "IcebergCDCPipeline", "name": "shop"},
        "eventTime": "2026-03-01T12:00:00Z",
        "type": "Warning",
        "reason": "TableStalled",
        "note": note,
    }


def fill(api: ApiStub, marks: Marks) -> None:
    """Let the cluster hold a pipeline with its run, and repeat secrets in every text."""
    password, token, region = marks.make(), marks.make(), "eu-west-1"
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": marks.make(),
        "team/note": marks.make(),
        "icdc.icebergcdc.dev/x": marks.make(),
    }
    spec = write_spec(marks)
    repeated = f"{password} {token} {quote(token, safe='')} " + " ".join(
        [
            spec["catalog"]["properties"]["header.X-Team"],
            spec["spark"]["driver"]["template"]["spec"]["containers"][0]["env"][0]["value"],
        ]
    )
    status = {"observedGeneration": 1, "conditions": [{"type": "Ready", "message": repeated}]}
    metadata = {"name": "shop", "annotations": annotations}
    shop = api.add_pipeline({"metadata": metadata, "spec": spec, "status": status})
    application, operator = make_application(marks), make_operator(marks)
    event = make_event(f"gap: {repeated}")
    pipelines = "/apis/icebergcdc.dev/v1alpha1/namespaces/default/icebergcdcpipelines"
    api.documents |= {
        "/version": {"gitVersion": "v1.34.1"},
        pipelines: {"items": [shop], "metadata": {}},
        "/apis/sparkoperator.k8s.io/v1beta2/namespaces/default/sparkapplications": {
            "items": [application]
        },
        "/apis/events.k8s.io/v1/namespaces/default/events": {"items": [event]},
        "/api/v1/pods": {"items": [operator]},
        f"{TEAM}/secrets/search": encode(username="icdc", password=password, awsRegion=region),
        f"{TEAM}/secrets/lake": encode(token=token, type="rest"),
    }
    api.pods.append(
        make_driver_pod("shop-e1-1-driver", "shop-e1-1", created="2026-03-01T12:00:00Z")
    )
    log = [
        f"401 for {repeated}\n",
        f"Authorization: Bearer {marks.make_plain()}\n",
        f"sent Bearer {marks.make_plain()}\n",
        "-----BEGIN PRIVATE KEY-----\n",
        f"{marks.make_plain()}\n",
        "-----END PRIVATE KEY-----\n",
        f"{json.dumps(token)} {base64.b64encode(token.encode()).decode()}\n",
        f"GET https://u:{marks.make_plain()}@lake/x\n",
        f'{{"client_secret": "{marks.make_plain()}"}}\n',
        "signed by AKIAABCDEFGHIJKLMNOP in eu-west-1\n",
    ]
    marks.values.append("AKIAABCDEFGHIJKLMNOP")
    api.logs |= {"shop-e1-1-driver": log, "icdc-0": [f"reconciled, {repeated}\n"]}


def read_archive(data: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        files = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        return {
            name.removeprefix("icdc-report/"): file.read().decode()
            for name, file in files.items()
            if file is not None
        }


@pytest.fixture
def bundle(
    api: ApiStub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[dict[str, str], Marks]:
    """The files of a report, and what must not be in them."""
    marks = Marks()
    fill(api, marks)
    path = tmp_path / "report.tar.gz"
    assert main.main(["report", "-o", str(path)]) == 0, capsys.readouterr().err
    assert path.stat().st_mode & 0o077 == 0
    return read_archive(path.read_bytes()), marks


def test_no_marked_secret_is_in_any_file(bundle: tuple[dict[str, str], Marks]) -> None:
    files, marks = bundle
    assert len(marks.values) > 15
    assert {path: values for path, text in files.items() if (values := marks.find_in(text))} == {}


def test_what_an_issue_needs_is_in_the_bundle(bundle: tuple[dict[str, str], Marks]) -> None:
    files, _ = bundle
    assert set(files) == {
        *("versions.yaml", "findings.txt", "events.txt", "pipelines/shop.yaml"),
        *("runs/shop/shop-e1-1.yaml", "runs/shop/shop-e1-1-driver.log"),
        *("runs/shop/shop-e1-1-driver.pod.yaml", "operator/icdc-0.log", "operator/icdc-0.pod.yaml"),
    }
    shop = yaml.safe_load(files["pipelines/shop.yaml"])
    assert shop["spec"]["catalog"]["properties"] == {
        "type": "rest",
        "uri": f"https://{MASK}@lake/x?{MASK}",
        "s3.secret-access-key": MASK,
        "header.X-Team": MASK,
    }
    assert shop["spec"]["sink"]["opensearch"]["credentialsFrom"]["secretRef"]["name"] == "search"
    assert "managedFields" not in shop["metadata"]
    assert yaml.safe_load(files["versions.yaml"])["kubernetes"] == "v1.34.1"
    assert "TableStalled IcebergCDCPipeline/shop: gap: " in files["events.txt"]
    assert f"401 for {MASK}" in files["runs/shop/shop-e1-1-driver.log"]
    assert "in eu-west-1" in files["runs/shop/shop-e1-1-driver.log"]
    assert "API server" in files["findings.txt"]


def test_what_cannot_be_read_is_listed(
    api: ApiStub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(api, Marks())
    api.log_failure = (403, "no logs for you")
    path = tmp_path / "report.tar.gz"
    assert main.main(["report", "shop", "-o", str(path)]) == 0, capsys.readouterr().err
    missing = read_archive(path.read_bytes())["missing.txt"].splitlines()
    assert [line.partition(": ")[0] for line in missing] == [
        *("runs/shop/shop-e1-1-driver.log", "operator/icdc-0.log")
    ]
    assert "no logs for you" in missing[0]


def test_a_file_that_exists_is_not_overwritten(
    api: ApiStub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(api, Marks())
    path = tmp_path / "report.tar.gz"
    path.write_text("mine")
    assert main.main(["report", "-o", str(path)]) == 2
    assert "File exists" in capsys.readouterr().err
    assert path.read_text() == "mine"


def test_without_an_api_server_there_is_no_report(
    api: ApiStub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api.failure = (503, "shutting down")
    assert main.main(["report", "-o", str(tmp_path / "report.tar.gz")]) == 3
    assert "shutting down" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.gz"))


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ({"secretName": "tls", "imagePullSecrets": [{"name": "r"}]}, None),
        ({"fields": {"properties": {"a": {"type": "keyword"}}}}, None),
        ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}, None),
        ({"spark.hadoop.fs.s3a.access.key": "abcd"}, {"spark.hadoop.fs.s3a.access.key": MASK}),
        ({"labels": {"a": "b"}, "annotations": {"a": "b"}}, {"labels": {"a": "b"},
                                                             "annotations": {}}),
    ],
)  # fmt: skip
def test_names_stay_and_values_go(value: Object, masked: Object | None) -> None:
    assert Masker().mask_object(value) == (value if masked is None else masked)
