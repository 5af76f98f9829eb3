"""`icdc plan`, `verify` and `dead-letters` with a NAME of a pipeline that can answer nothing."""

import signal
from types import SimpleNamespace

import pytest

from icdc_api import naming
from icdc_api.status.runs import RunState
from icdc_api.status.triggers import Ask
from icdc_cli import main
from icdc_cli.cluster import asking
from icdc_testing.kube.api_stub import ApiStub, Object
from icdc_testing.kube.stored_pipelines import make_condition
from icdc_testing.operator.deciding.pipelines import make_spec, run_record

pytestmark = pytest.mark.unit


def test_a_pipeline_that_can_answer_nothing_is_not_asked(
    api: ApiStub, shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    shop["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    assert main.main(["plan", "shop"]) == 2
    assert "is being deleted" in capsys.readouterr().err
    broken = make_spec("shop.orders").to_resource() | {"tables": []}
    api.add_pipeline({"metadata": {"name": "broken"}, "spec": broken})
    assert main.main(["plan", "broken"]) == 2
    assert not any(request.startswith("PATCH") for request in api.asked)


@pytest.mark.parametrize("command", [["plan"], ["verify"], ["dead-letters", "list"]])
@pytest.mark.parametrize(
    ("refused", "code", "said"),
    [
        (1, 2, "icdc: no run can answer until the spec is corrected: spec.spark.conf: no\n"),
        # It was corrected since, and no operator has read that yet.
        (0, 3, "no operator has accepted the question; action required"),
    ],
)
def test_a_spec_that_the_operator_refuses_is_named_as_the_cause(
    refused: int,
    code: int,
    said: str,
    command: list[str],
    shop: Object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(asking, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(asking, "TAKEN_UP_SECONDS", 0.05)
    wrong = make_condition(
        "SpecValid", "False", message="spec.spark.conf: no", observedGeneration=refused
    )
    shop["status"] = {"observedGeneration": refused, "conditions": [wrong]}
    assert main.main([*command, "shop"]) == code
    assert said in capsys.readouterr().err
    assert not any((shop["metadata"].get("annotations") or {}).values()), "taken back"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_who_gives_up_takes_the_question_back(
    number: signal.Signals, code: int, shop: Object, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Object] = []

    def give_up(_seconds: float) -> None:
        asked.append(dict(shop["metadata"]["annotations"]))
        signal.raise_signal(number)

    monkeypatch.setattr(asking, "_sleep", give_up)
    assert main.main(["verify", "shop", "--repair"]) == code
    assert [bool(annotations[naming.ANNOTATION_ASK]) for annotations in asked] == [True]
    assert not any((shop["metadata"].get("annotations") or {}).values()), "taken back"


def test_a_question_that_waits_in_the_queue_of_runs_is_waited_for(
    shop: Object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    position = "queue position 2 of 3: the limit --max-active-runs (4) is reached"
    queued = make_condition("RunActive", "False", reason="Queued", message=position)
    shop["status"] = {"observedGeneration": 1, "conditions": [queued]}
    monkeypatch.setattr(asking, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(asking, "TAKEN_UP_SECONDS", 0.05)
    assert main.main(["plan", "shop", "--wait", "1"]) == 3
    waits = f"the run that answers is queued: {position}"
    first, last = capsys.readouterr().err.splitlines()
    assert first == f"icdc: {waits}"
    # Not how long that was: on a busy host the last read comes late.
    assert last.startswith("icdc: no answer within ")
    assert last.endswith(f" s: {waits}; ask again with a higher --wait, see icdc logs shop")


def test_an_operator_has_time_to_plan_the_answer_once_the_run_before_has_ended(
    shop: Object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The clock of the command: 30 s between two reads, of which the second meets no run.
    active = {"observedGeneration": 1, "currentRun": run_record().to_resource()}
    statuses = iter([active, active, active, {"observedGeneration": 1}, active])
    times = iter(range(0, 10_000, 30))

    def show_next(_seconds: float) -> None:
        shop["status"] = next(statuses)

    shop["status"] = active
    monkeypatch.setattr(asking, "time", SimpleNamespace(monotonic=lambda: float(next(times))))
    monkeypatch.setattr(asking, "_sleep", show_next)
    assert main.main(["plan", "shop", "--wait", "180"]) == 3
    assert "no answer within 180 s: the run shop-e1-1 is active" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (False, "must end first; ask again with a higher --wait, see icdc logs shop, or end the"),
        (True, "answers (Submitted); ask again with a higher --wait, see icdc logs shop\n"),
    ],
)
def test_only_a_run_that_does_something_else_is_to_be_ended(
    asked: bool,
    said: str,
    api: ApiStub,
    shop: Object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def take_up(pipeline: Object) -> None:
        ask = Ask.of_annotation(pipeline["metadata"]["annotations"].get(naming.ANNOTATION_ASK))
        if ask is not None:
            run = run_record(ask=ask.id if asked else None)
            run = run.model_copy(update={"state": RunState.SUBMITTED})
            pipeline["status"] = {"observedGeneration": 1, "currentRun": run.to_resource()}

    monkeypatch.setattr(asking, "POLL_SECONDS", 0.01)
    api.after_patch = take_up
    assert main.main(["plan", "shop", "--wait", "1"]) == 3
    assert said in capsys.readouterr().err
