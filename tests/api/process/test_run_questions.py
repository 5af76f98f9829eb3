"""A continuous run is asked while it goes on; the operator is a process with its Role.

The driver is played by hand; what a real one answers is tested with Spark.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from icdc_api import naming
from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import QUESTION_VARIABLE, RunQuestion
from icdc_api.status.pipeline_status import PipelineStatus, parse_status
from icdc_api.status.runs import RunState
from icdc_cli import main
from icdc_operator.manifests.pods import pod_paths
from icdc_testing.kube.operator_process import OperatorProcess
from icdc_testing.kube.stored_pipelines import make_minimal
from icdc_testing.operator.adapter.stepping import SteppedCluster, make_report
from icdc_testing.operator.deciding.pipelines import make_caught_up
from icdc_testing.waiting.patience import WAIT, ImpatientClock
from icdc_testing.waiting.wait import WAIT_SECONDS

pytestmark = [pytest.mark.api, pytest.mark.usefixtures("person")]

Start = Callable[..., OperatorProcess]
RUN, QUESTION = "shop-e1-1", "shop-e1-1-question"
TABLES = ("shop.orders", "shop.users")
CONTINUOUS: dict[str, Any] = {
    "changelog": {"trigger": "Continuous"},
    "tables": [{"name": name, "identifierColumns": ["id"]} for name in TABLES],
}


def read_status(cluster: SteppedCluster) -> PipelineStatus:
    return parse_status(cluster.pipelines.get("shop").get("status") or {})


def write_report(cluster: SteppedCluster, **more: Any) -> None:
    """Let the driver of the continuous run write a report."""
    record = read_status(cluster).current_run
    assert record is not None
    tables = [make_caught_up(name) for name in TABLES]
    cluster.report(RUN, make_report(record, *tables, takes_questions=True, **more))


def read_question(cluster: SteppedCluster) -> RunQuestion | None:
    """Return the question in the ConfigMap that the driver has mounted."""
    questions = [
        map_ for map_ in cluster.list_objects("configmap") if map_["metadata"]["name"] == QUESTION
    ]
    if not questions:
        return None
    (question,) = questions
    assert not question.get("immutable"), "the kubelet would not see the next one"
    return RunQuestion.model_validate_json(question["data"][pod_paths.QUESTION_KEY])


def make_answer(question: RunQuestion, *names: str) -> dict[str, Any]:
    entries = [{"name": name, "index": name, "equal": True, "rows": 7} for name in names]
    return {"question": question.id, "complete": True, "tables": entries}


@pytest.fixture
def operator(cluster: SteppedCluster, start: Start) -> OperatorProcess:
    """An operator, and a pipeline that a continuous run follows."""
    running = start()
    cluster.pipelines.apply(make_minimal(**CONTINUOUS))
    running.wait_until(lambda: cluster.list_names("sparkapplication") == [RUN], "it exports")
    cluster.start_driver(RUN)
    write_report(cluster)

    def is_running() -> bool:
        run = read_status(cluster).current_run
        return run is not None and run.state is RunState.RUNNING

    running.wait_until(is_running, "it is followed")
    return running


def read_annotations(cluster: SteppedCluster) -> dict[str, str]:
    annotations: dict[str, str] = cluster.pipelines.get("shop")["metadata"].get("annotations") or {}
    return annotations


def assert_undisturbed(cluster: SteppedCluster) -> None:
    """Require that the run was neither stopped nor replaced."""
    assert cluster.list_names("sparkapplication") == [RUN]
    (pod,) = cluster.list_objects("pod")
    assert "deletionTimestamp" not in pod["metadata"]
    (application,) = cluster.list_objects("sparkapplication")
    assert application["metadata"]["generation"] == 1


def test_a_driver_has_a_place_for_questions_and_no_further_right(
    cluster: SteppedCluster, operator: OperatorProcess
) -> None:
    (application,) = cluster.list_objects("sparkapplication")
    pod = application["spec"]["driver"]["template"]["spec"]
    volume = {"name": "icdc-question", "configMap": {"name": QUESTION, "optional": True}}
    assert volume in pod["volumes"]
    mounts = [mount for container in pod["containers"] for mount in container["volumeMounts"]]
    (mount,) = [mount for mount in mounts if mount["name"] == "icdc-question"]
    assert mount["readOnly"]
    (env,) = [container["env"] for container in pod["containers"]]
    path = f"{mount['mountPath']}/{pod_paths.QUESTION_KEY}"
    assert {"name": QUESTION_VARIABLE, "value": path} in env
    assert read_question(cluster) is None


def test_a_table_is_verified_by_the_run_that_goes_on(
    cluster: SteppedCluster, operator: OperatorProcess
) -> None:
    resync = {"nonce": 1, "mode": "Verify", "tables": [TABLES[1]]}
    cluster.pipelines.apply(make_minimal(**CONTINUOUS, resync=resync))
    operator.wait_until(lambda: read_question(cluster) is not None, "the run is asked")
    question = read_question(cluster)
    assert question is not None
    assert (question.mode, question.tables) == (RunMode.VERIFY, (TABLES[1],))
    write_report(cluster, result={"question": question.id, "complete": False, "tables": []})
    # A person asks meanwhile, and waits.
    person = threading.Thread(target=main.main, args=(["verify", "shop", "--repair"],))
    person.start()
    operator.wait_until(lambda: naming.ANNOTATION_ASK in read_annotations(cluster), "it is asked")
    assert read_question(cluster) == question
    write_report(cluster, result=make_answer(question, TABLES[1]))

    def is_verified() -> bool:
        return any(table.verification for table in read_status(cluster).tables)

    operator.wait_until(is_verified, "it is verified")
    operator.wait_until(
        lambda: read_question(cluster) not in (question, None), "the second one is asked"
    )
    second = read_question(cluster)
    assert second is not None
    assert (second.mode, second.tables) == (RunMode.REPAIR, None)
    write_report(cluster, result=make_answer(second, *TABLES))
    person.join(WAIT_SECONDS)
    assert not person.is_alive()
    status = read_status(cluster)
    assert [table.verification is not None for table in status.tables] == [False, True]
    assert status.observed_ask is not None
    assert (status.observed_ask.run, status.observed_ask.failure) == (RUN, None)
    assert_undisturbed(cluster)


@pytest.mark.parametrize(
    ("words", "asks", "entry"),
    [
        ("plan shop", {"mode": RunMode.PLAN}, {"mode": "Idle", "why": "", "rows": 0, "bytes": 0}),
        (
            "dead-letters list shop --table shop.users",
            {"mode": RunMode.DEAD_LETTERS, "only": TABLES[1:]},
            {"count": 0, "letters": []},
        ),
        (
            "dead-letters replay shop --table shop.users --id 7",
            {"mode": RunMode.REPLAY, "only": TABLES[1:], "ids": ("7",)},
            {"resent": 1, "left": 0},
        ),
    ],
    ids=["plan", "list", "replay"],
)
def test_what_a_person_asks_is_answered_by_the_run_that_goes_on(
    cluster: SteppedCluster,
    operator: OperatorProcess,
    words: str,
    asks: dict[str, Any],
    entry: dict[str, Any],
) -> None:
    with ThreadPoolExecutor(1) as pool:
        person = pool.submit(main.main, [*words.split(), "-o", "json"])
        operator.wait_until(lambda: read_question(cluster) is not None, "the run is asked")
        question = read_question(cluster)
        assert question is not None
        assert question == RunQuestion.model_validate({"id": question.id, **asks})
        whole = make_answer(question, TABLES[1])
        write_report(cluster, result=whole | {"tables": [whole["tables"][0] | entry]})
        assert person.result(WAIT_SECONDS) == 0
    assert_undisturbed(cluster)


def test_who_does_not_wait_any_more_takes_the_question_back(
    cluster: SteppedCluster,
    operator: OperatorProcess,
    clock: ImpatientClock,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ThreadPoolExecutor(1) as pool:
        person = pool.submit(main.main, ["verify", "shop", *WAIT])
        operator.wait_until(lambda: read_question(cluster) is not None, "the run is asked")
        operator.wait_until(lambda: read_status(cluster).observed_ask is not None, "it says so")
        clock.end_waits()
        assert person.result(WAIT_SECONDS) == 3
    assert f"the run {RUN} answers while it follows its tables" in capsys.readouterr().err
    operator.wait_until(lambda: read_question(cluster) is None, "the run is asked nothing more")
    assert_undisturbed(cluster)


def test_a_table_that_the_spec_does_not_have_is_refused_before_anything_is_asked(
    cluster: SteppedCluster, operator: OperatorProcess
) -> None:
    resync = {"nonce": 1, "mode": "Verify", "tables": ["shop.nothing"]}
    refused = cluster.pipelines.try_to_apply(make_minimal(**CONTINUOUS, resync=resync))
    assert "spec.resync.tables: each must be the name of a table in spec.tables" in refused.err
    assert read_question(cluster) is None
    assert_undisturbed(cluster)


def test_a_name_that_is_somebody_elses_is_left_and_a_run_of_its_own_answers(
    cluster: SteppedCluster, operator: OperatorProcess, clock: ImpatientClock
) -> None:
    cluster.pipelines.run_ok("create", "configmap", QUESTION, "--from-literal=mine=1")
    person = threading.Thread(target=main.main, args=(["verify", "shop", *WAIT],))
    person.start()

    def is_stopped() -> bool:
        run = read_status(cluster).current_run
        return run is not None and run.state is RunState.STOPPING

    operator.wait_until(is_stopped, "it makes room")
    clock.end_waits()
    person.join(WAIT_SECONDS)
    assert not person.is_alive()
    assert (
        cluster.pipelines.run_ok("get", "configmap", QUESTION, "-o", "jsonpath={.data.mine}") == "1"
    )
