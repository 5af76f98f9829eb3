"""The local runner: the reconcile core over child processes, with a scripted application."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from icdc_api import errors
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_cli import exits
from icdc_cli.exits import Exit
from icdc_cli.local import resource
from icdc_cli.local.application import Application
from icdc_cli.local.runner import LocalRunner, Update
from icdc_cli.local.runs import LocalRuns
from icdc_cli.local.state_dir import StateDir

pytestmark = pytest.mark.unit

PipelineFile = Callable[..., Path]
DEADLINE_SECONDS = 60.0


class RunnerBench:
    """Runs pipelines in one state directory and keeps what was told."""

    def __init__(self, root: Path, application: Application) -> None:
        self.state = StateDir(root)
        self.application = application
        self.reasons: list[str] = []

    def hear(self, update: Update) -> None:
        self.reasons += [event.reason for event in update.events]

    def make_runner(self, path: Path, *, once: bool = True) -> LocalRunner:
        runs = LocalRuns(self.state.runs_path, self.application, grace_seconds=0.5)
        local = resource.load(path)
        return LocalRunner(local, self.state, runs, once=once, watcher=self.hear)

    def run(self, path: Path) -> PipelineStatus:
        with self.state:
            return self.make_runner(path).run()


@pytest.fixture
def bench(tmp_path: Path, fake_application: Application) -> RunnerBench:
    return RunnerBench(tmp_path / "state", fake_application)


@pytest.mark.parametrize(
    ("fake", "code", "reasons"),
    [
        ("succeed", Exit.DONE, ["RunPlanned", "ExportStarted", "ExportCompleted", "RunSucceeded"]),
        (
            "fail_to_connect_once",
            Exit.DONE,
            ["RunPlanned", "RunFailed", "RunRetrying", "RunPlanned"],
        ),
        (
            "sigkill_once",
            Exit.DONE,
            ["RunPlanned", "RunFailed", "RunRetrying", "RunPlanned", "RunSucceeded"],
        ),
        ("stall", Exit.STALLED, ["RunPlanned", "TableStalled"]),
        ("fail_to_connect", Exit.OUTLASTED, ["RunFailed"] * 3),
        ("crash", Exit.STALLED, ["RunPlanned", "RunFailed"]),
    ],
)
def test_once_ends_with_the_exit_code_of_the_contract(
    bench: RunnerBench, pipeline_file: PipelineFile, fake: str, code: Exit, reasons: list[str]
) -> None:
    status = bench.run(pipeline_file(fake))
    assert exits.choose_for_status(status)[0] == code
    assert status.holds(ConditionType.READY) == (code == Exit.DONE)
    heard = iter(bench.reasons)
    assert all(reason in heard for reason in reasons), bench.reasons


def test_a_second_call_runs_again_under_a_new_name_and_keeps_the_generation(
    bench: RunnerBench, pipeline_file: PipelineFile
) -> None:
    first = bench.run(pipeline_file())
    second = bench.run(pipeline_file())
    assert first.last_run is not None
    assert second.last_run is not None
    assert (first.last_run.name, second.last_run.name) == ("shop-e1-1", "shop-c2-1")
    assert second.last_run.epoch > first.last_run.epoch
    assert second.observed_generation == 1


def test_a_changed_spec_is_a_new_generation(
    bench: RunnerBench, pipeline_file: PipelineFile
) -> None:
    bench.run(pipeline_file())
    assert bench.run(pipeline_file(restartNonce=1)).observed_generation == 2


def test_a_call_after_the_retries_were_used_up_tries_again(
    bench: RunnerBench, pipeline_file: PipelineFile
) -> None:
    retry = {"maxAttempts": 1}
    assert bench.run(pipeline_file("fail_to_connect", retry=retry)).consecutive_failures == 1
    status = bench.run(pipeline_file("succeed", retry=retry))
    assert status.holds(ConditionType.READY)


def test_a_suspended_pipeline_ends_at_once_and_runs_nothing(
    bench: RunnerBench, pipeline_file: PipelineFile
) -> None:
    status = bench.run(pipeline_file("crash", suspend=True))
    assert (status.last_run, exits.choose_for_status(status)[0]) == (None, Exit.DONE)
    assert status.holds(ConditionType.SUSPENDED)


def test_stop_lets_a_continuous_run_finish_its_batch(
    bench: RunnerBench, pipeline_file: PipelineFile
) -> None:
    with bench.state:
        runner = bench.make_runner(pipeline_file("end_when_asked"), once=False)
        thread = threading.Thread(target=runner.run)
        thread.start()
        end = time.monotonic() + DEADLINE_SECONDS
        while not runner.status.holds(ConditionType.CAUGHT_UP) and time.monotonic() < end:
            time.sleep(0.02)
        runner.stop()
        thread.join(DEADLINE_SECONDS)
    status = runner.status
    assert not thread.is_alive()
    assert status.current_run is None
    assert status.last_run is not None
    assert (status.last_run.failure, status.holds(ConditionType.READY)) == (None, True)


def test_a_pipeline_of_which_no_jvm_starts_ends_also_one_that_would_go_on(
    bench: RunnerBench, pipeline_file: PipelineFile
) -> None:
    """On a cluster it is tried again; here the pipeline and the JDK are read only once."""
    with bench.state:
        runner = bench.make_runner(pipeline_file("start_no_jvm"), once=False)
        thread = threading.Thread(target=runner.run)
        thread.start()
        thread.join(DEADLINE_SECONDS)
        ended = not thread.is_alive()
        runner.stop()
        thread.join(DEADLINE_SECONDS)
    assert ended
    code, message = exits.choose_for_status(runner.status)
    assert code == Exit.OUTLASTED
    assert message.endswith("then call icdc run again")


@pytest.mark.parametrize(
    ("fake", "code"), [("succeed", Exit.DONE), ("differ_at_verify", Exit.STALLED)]
)
def test_a_comparison_that_the_spec_asks_for_is_made_after_the_tables_are_followed(
    bench: RunnerBench, pipeline_file: PipelineFile, fake: str, code: Exit
) -> None:
    resync = {"nonce": 1, "mode": "Verify", "tables": ["shop.orders"]}
    status = bench.run(pipeline_file(fake, resync=resync))
    assert status.last_run is not None
    assert status.last_run.name == "shop-v2-1"
    asked = json.loads((bench.state.runs_path / "shop-v2-1" / "request.json").read_text())
    assert (asked["mode"], asked["tables"], asked["continuous"]) == (
        "verify",
        ["shop.orders"],
        False,
    )
    assert exits.choose_for_status(status)[0] == code
    assert status.holds(ConditionType.READY)
    assert ("DifferencesFound" in bench.reasons) == (code == Exit.STALLED)


def test_a_second_stop_does_not_wait_for_a_deaf_run(
    bench: RunnerBench, pipeline_file: PipelineFile
) -> None:
    with bench.state:
        runs = LocalRuns(bench.state.runs_path, bench.application)  # with the usual, long grace
        local = resource.load(pipeline_file("ignore_sigterm"))
        runner = LocalRunner(local, bench.state, runs, once=True)
        thread = threading.Thread(target=runner.run)
        thread.start()
        end = time.monotonic() + DEADLINE_SECONDS
        while not runner.status.holds(ConditionType.RUN_ACTIVE) and time.monotonic() < end:
            time.sleep(0.02)
        runner.stop()
        runner.stop()
        thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()


def test_placeholders_are_kept_as_written_and_their_values_go_into_the_request_alone(
    bench: RunnerBench, pipeline_file: PipelineFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE_PASSWORD", "s3cret")
    properties = {"type": "rest", "uri": "http://lake", "password": "${LAKE_PASSWORD}"}
    bench.run(pipeline_file(catalog={"properties": properties}))
    retained = bench.state.resource_path.read_text()
    assert "${LAKE_PASSWORD}" in retained
    assert "s3cret" not in retained
    request = bench.state.runs_path / "shop-e1-1" / "request.json"
    assert "s3cret" in request.read_text()


def test_the_state_of_another_pipeline_is_refused(
    bench: RunnerBench, pipeline_file: PipelineFile
) -> None:
    bench.run(pipeline_file())
    path = pipeline_file()
    path.write_text(path.read_text().replace("name: shop\n", "name: other\n"))
    with pytest.raises(errors.BadSpec, match="belongs to the pipeline default/shop, not to"):
        bench.run(path)
