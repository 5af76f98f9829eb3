"""What a tenant, a catalog or a driver wrote reaches no terminal as a command."""

import argparse
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from icdc_api import errors
from icdc_api.status.pipeline_status import PipelineStatus, TableReason
from icdc_api.status.runs import Failure
from icdc_cli import live, main, options, terminal
from icdc_cli.commands import plan_verify
from icdc_cli.options import Output
from icdc_cli.tables import answer_tables
from icdc_operator.core.conditions import summary as core
from icdc_operator.core.events import Event
from icdc_testing.kube.api_stub import ApiStub, Object, make_driver_pod
from icdc_testing.operator.deciding.pipelines import make_observed, make_spec, make_stalled

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 1, tzinfo=UTC)
HOSTILE = "\x1b]52;c;eA==\x07 \x9b2J \r \x7f here"
"""Writes the clipboard, clears the screen by the one-character form, overwrites the line."""


def find_unsafe(text: str) -> set[str]:
    return {one for one in text if one not in "\n\t" and (one < " " or "\x7f" <= one <= "\x9f")}


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    def read() -> str:
        output = capsys.readouterr()
        text = output.out + output.err
        assert "here" in text
        return text

    return read


@pytest.fixture
def hostile_shop(shop: Object) -> Object:
    stalled = make_stalled(TableReason.GAP).model_copy(update={"message": HOSTILE})
    value = PipelineStatus(observed_generation=1, tables=(stalled,))
    conditions = core.build_conditions(value, make_observed(make_spec("shop.orders")), now=NOW)
    changed = [one.model_copy(update={"message": HOSTILE}) for one in conditions]
    status = core.summarise(value.model_copy(update={"conditions": tuple(changed)}))
    shop["status"] = status.to_resource()
    return shop


@pytest.mark.usefixtures("hostile_shop")
@pytest.mark.parametrize("output", ["text", "json", "yaml"])
def test_the_status_of_a_pipeline_commands_no_terminal(output: str, printed: Any) -> None:
    assert main.main(["status", "shop", "-o", output]) == 1
    assert not find_unsafe(printed())


@pytest.mark.parametrize("follow", [[], ["-f"]])
def test_the_log_of_a_driver_commands_no_terminal(
    follow: list[str], api: ApiStub, shop: Object, printed: Any
) -> None:
    shop["status"] = {"currentRun": {"name": "shop-c1-1"}}
    api.pods.append(make_driver_pod("driver", "shop-c1-1", created="2026-01-01T00:00:00Z"))
    api.logs["driver"] = [f"{HOSTILE}\n", "the next line\n"]
    assert main.main(["logs", "shop", *follow]) == 0
    text = printed()
    assert not find_unsafe(text)
    assert text.endswith("here\nthe next line\n")


def test_a_refusal_of_the_cluster_commands_no_terminal(
    api: ApiStub, shop: Object, printed: Any
) -> None:
    shop["status"] = {"currentRun": {"name": "shop-c1-1"}}
    api.pods.append(make_driver_pod("driver", "shop-c1-1", created="2026-01-01T00:00:00Z"))
    api.log_failure = (503, HOSTILE)
    assert main.main(["logs", "shop", "-v"]) == 3
    assert not find_unsafe(printed())


@pytest.mark.parametrize(
    "text",
    [
        answer_tables.format_plan({"tables": [{"name": "a", "mappingChanges": [HOSTILE]}]}),
        answer_tables.format_comparison(
            {"tables": [{"name": "a", "extra": {"samples": [HOSTILE]}}]}
        ),
        answer_tables.format_comparison({"tables": [{"name": HOSTILE, "reason": "Gap"}]}),
        answer_tables.format_dead_letters({"tables": [{"name": HOSTILE, "message": "m"}]}),
        answer_tables.format_replay({"tables": [{"name": "a", "samples": [HOSTILE]}]}),
    ],
    ids=["plan", "verify", "name", "letters", "replay"],
)
def test_the_answer_of_a_run_commands_no_terminal(text: str, printed: Any) -> None:
    arguments = argparse.Namespace(output=Output.TEXT)
    plan_verify.show_answer({"tables": []}, arguments, lambda _: text, bool)
    assert not find_unsafe(printed())


def test_an_answer_without_any_table_is_no_good_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = argparse.Namespace(output=Output.TEXT)
    assert plan_verify.show_answer({"tables": []}, arguments, str, lambda _: False) == 1
    assert "no table has answered: read the log of the run's driver" in capsys.readouterr().err


def test_the_failure_of_a_run_commands_no_terminal(printed: Any) -> None:
    failure = Failure.of(errors.TargetUnavailable(HOSTILE))
    arguments = argparse.Namespace(output=Output.TEXT)
    assert plan_verify.show_answer(failure, arguments, str, bool) == 3
    assert not find_unsafe(printed())


def test_an_event_of_a_local_run_commands_no_terminal() -> None:
    assert not find_unsafe(live.format_event(Event("Gap", HOSTILE, warning=True)))


def test_programs_get_the_very_text(capsys: pytest.CaptureFixture[str]) -> None:
    options.write({"message": HOSTILE}, Output.JSON)
    assert json.loads(capsys.readouterr().out) == {"message": HOSTILE}


@pytest.mark.parametrize(
    ("output", "parse"), [(Output.JSON, json.loads), (Output.YAML, yaml.safe_load)]
)
def test_programs_get_the_very_text_in_any_encoding(
    output: Output, parse: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="latin-1", errors="backslashreplace")
    monkeypatch.setattr("sys.stdout", stream)
    options.write({"message": "Zoë … \N{GRINNING FACE}"}, output)
    stream.flush()
    assert parse(written.getvalue().decode("ascii")) == {"message": "Zoë … \N{GRINNING FACE}"}


def test_a_message_of_several_lines_looks_like_no_other_row() -> None:
    row = {"name": "a", "index": "a", "reason": "Gap", "message": "first\nshop.b   b   1   yes"}
    assert len(answer_tables.format_comparison({"tables": [row]}).splitlines()) == 2


def test_tabs_lines_and_other_scripts_stay() -> None:
    assert terminal.make_printable("Grüße\t日本\n") == "Grüße\t日本\n"
