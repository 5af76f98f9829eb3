"""A request of another version: whoever started the run hears which versions do not fit."""

import json
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from icdc_api import __version__
from icdc_api.errors import BadSpec, Bug, FailureClass
from icdc_api.job.run_files import STARTER_VARIABLE, RunReport
from icdc_spark.iceberg.jvm import session
from icdc_spark.process import main
from icdc_testing.operator.deciding.pipelines import make_spec

pytestmark = pytest.mark.unit


def make_request(folder: Path, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "runId": "shop-e1-1.1000",
        "pipeline": {
            "apiVersion": "icebergcdc.dev/v1alpha1",
            "kind": "IcebergCDCPipeline",
            "metadata": {"name": "shop"},
            "spec": make_spec().to_resource() | spec,
        },
        "owner": "default/shop",
        "epoch": 1000,
        "reportPath": str(folder / "report.json"),
    }


@pytest.mark.parametrize(
    ("request_of_later", "spec_of_later", "field"),
    [
        ({"ofTheFuture": 1}, {}, "ofTheFuture: unknown field"),
        ({"mode": "dance"}, {}, "mode: "),
        ({}, {"ofTheFuture": 1}, "spec.ofTheFuture: unknown field"),
    ],
)
def test_a_request_of_a_newer_version_fails_with_the_field_and_both_versions(
    request_of_later: dict[str, Any],
    spec_of_later: dict[str, Any],
    field: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(STARTER_VARIABLE, "9.8.7")
    path = tmp_path / "request.json"
    path.write_text(json.dumps(make_request(tmp_path, spec_of_later) | request_of_later))
    assert main.main([str(path)]) == 0
    report = RunReport.read(tmp_path / "report.json")
    assert (report.run_id, report.finished) == ("shop-e1-1.1000", True)
    assert report.outcome is not None
    assert report.outcome.failure_class is FailureClass.BAD_SPEC
    versions = f"The operator is version 9.8.7, the image of the run version {__version__}: "
    for part in (field, versions, "Set spec.spark.image to"):
        assert part in report.outcome.message


def test_builds_of_one_version_that_differ_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STARTER_VARIABLE, __version__)
    path = tmp_path / "request.json"
    path.write_text(json.dumps(make_request(tmp_path, {}) | {"ofTheFuture": 1}))
    main.main([str(path)])
    outcome = RunReport.read(tmp_path / "report.json").outcome
    assert outcome is not None
    assert f"different builds of version {__version__}: " in outcome.message


def test_a_file_that_is_no_request_ends_the_process_with_its_error(tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    for text in ("", "[]", '{"runId": "a"}', "\\ud800"):
        path.write_text(text)
        with pytest.raises(BadSpec, match="is not a RunRequest"):
            main.main([str(path)])


@pytest.mark.parametrize(
    ("conf", "cause", "kind", "said"),
    [
        ({}, Py4JError("Trace:\nodd"), FailureClass.BUG, "the driver does not start: odd"),
        # Such as OOMKilled: what was seen of the pod explains a Bug, and no BadSpec.
        (
            {"spark.memory.fraction": "0.7"},
            Py4JNetworkError("Answer from Java side is empty"),
            FailureClass.BUG,
            "the driver does not start: odd",
        ),
        (
            {"spark.memory.fraction": "7", "spark.io.compression.codec": "x"},
            Py4JError("Trace:\nodd"),
            FailureClass.BAD_SPEC,
            "the driver does not start: odd; most likely Spark cannot work with a value in "
            "spec.spark.conf: check spark.io.compression.codec, spark.memory.fraction",
        ),
    ],
)
def test_where_spark_does_not_start_the_properties_of_the_pipeline_are_named(
    conf: dict[str, str],
    cause: Py4JError,
    kind: FailureClass,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_name: str) -> None:
        raise Bug("the driver does not start: odd") from cause

    # The process of the tests keeps its own handlers of signals.
    monkeypatch.setattr(main, "stop_on_signal", lambda _stop: None)
    monkeypatch.setattr(session, "create_application_session", fail)
    path = tmp_path / "request.json"
    path.write_text(json.dumps(make_request(tmp_path, {"spark": {"conf": conf}})))
    main.main([str(path)])
    outcome = RunReport.read(tmp_path / "report.json").outcome
    assert outcome is not None
    assert (outcome.failure_class, outcome.message) == (kind, said)
