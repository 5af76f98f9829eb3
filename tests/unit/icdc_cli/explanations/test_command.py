"""`icdc explain`: one word, a word of two families, an unknown one, the list, and data."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from icdc_cli import main
from icdc_cli.explanations import lookup

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("typed", ["AliasTaken", "aliastaken", "ALIASTAKEN"])
def test_a_word_is_explained_in_whatever_case_it_is_typed(
    typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["explain", typed]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    assert output.out.splitlines() == [
        "AliasTaken (reason)",
        "  The index name is in use by somebody else. The author chooses another.",
        "  Who acts: the author of the pipeline",
        "  Cure:",
        "    kubectl edit icdc NAME -n NAMESPACE  # spec.tables[].index: a name that nobody else "
        "uses",
    ]


@pytest.mark.parametrize(
    ("word", "families"),
    [
        ("Gap", ["reason", "failure class", "event"]),
        ("DeadLetters", ["condition", "event"]),
        ("failed", ["run state"]),
        ("Succeeded", ["run state"]),
        ("Suspended", ["condition", "condition reason", "event"]),
    ],
)
def test_a_word_of_several_families_is_explained_in_each(
    word: str, families: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["explain", word]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line and line[0] != " "] == [
        f"{word.capitalize() if word.islower() else word} ({family})" for family in families
    ]


@pytest.mark.parametrize(
    "typed",
    ["icdc_reconcile_seconds", "icdc_reconcile_seconds_bucket", "ICDC_RECONCILE_SECONDS_SUM"],
)
def test_a_metric_is_found_by_any_of_its_series(
    typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["explain", typed]) == 0
    assert capsys.readouterr().out.startswith("icdc_reconcile_seconds (metric)\n")


def test_a_counter_is_found_without_its_ending(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["explain", "icdc_runs"]) == 0
    assert capsys.readouterr().out.startswith("icdc_runs_total (metric)\n")


def test_an_alert_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["explain", "icebergcdcoperatordown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "IcebergCDCOperatorDown (alert)"
    assert lines[2] == "  Who acts: the platform engineer"
    assert any(line.startswith("    kubectl logs -n OPERATOR ") for line in lines)


def test_what_passes_by_itself_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["explain", "NodeLost"]) == 0
    assert "  Cure: It passes by itself.\n" in capsys.readouterr().out
    assert main.main(["explain", "SourceUnavailable"]) == 0
    assert "  Cure: It passes by itself. If it lasts:\n    icdc " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("Gpa", "'Gpa' is no word of this program; the nearest are Gap"),
        ("deadletter", "DeadLetters"),
        ("xyzzy", "icdc explain lists all words"),
    ],
)
def test_an_unknown_word_exits_with_2_and_names_the_nearest(
    typed: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["explain", typed]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("icdc: ")
    assert near in output.err


def test_without_a_word_all_are_listed_in_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    entries = lookup.list_all()
    listed = [line.split(" ")[0] for line in lines if "  " in line]
    assert listed == [entry.word for entry in entries]
    assert max(len(line) for line in lines) <= 100
    headings = [line for line in lines if line and "  " not in line]
    assert headings == list(dict.fromkeys(entry.family.upper() for entry in entries))


@pytest.mark.parametrize(("output", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_data_has_every_field_of_each_entry(
    output: str, parse: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["explain", "gap", "-o", output]) == 0
    first, *others = parse(capsys.readouterr().out)["explanations"]
    assert (first["word"], first["family"]) == ("Gap", "reason")
    assert first["whoActs"] == "the author of the pipeline"
    assert first["cure"][0] == "icdc resync NAME -n NAMESPACE --table TABLE"
    assert len(others) == 2
    for entry in (first, *others):
        assert set(entry) == {"word", "family", "meaning", "whoActs", "cure"}
