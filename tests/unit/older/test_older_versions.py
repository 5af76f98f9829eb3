"""What each earlier version has stored is read by this one, which goes on from there."""

import hashlib
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from icdc_api.errors import StateCorrupt
from icdc_api.job import report_text
from icdc_api.job.run_files import RunReport, RunRequest
from icdc_api.status.pipeline_status import parse_status
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import RunPhase, RunSeen
from icdc_spark.protocol.next_step import choose_step
from icdc_spark.protocol.state_document import Applied, Owner, Shards, StateDocument
from icdc_spark.protocol.steps import StepKind
from icdc_testing.operator.deciding.pipelines import make_observed, make_spec
from icdc_testing.target.step_cases import REBUILDING, STOPPING, make_view

from .writing import (
    MOMENT,
    TEXT,
    build_all,
    build_documents,
    build_report,
    build_request,
    build_states,
    build_status,
)

pytestmark = pytest.mark.unit

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("contract-*.json"))
NEWEST = FILES[-1]
NEXT = Owner(pipeline="default/shop", epoch=5, run_id="run-5")
STEPS = {
    "begun": StepKind.EXPORT,
    "exporting": StepKind.REPLAY,
    "swapping": StepKind.REPLAY,
    "exported": StepKind.CHANGELOG,
    "changing": StepKind.REPLAY,
}


def read_stored(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def add_checksum(source: dict[str, Any]) -> dict[str, Any]:
    content = {key: value for key, value in source.items() if key != "checksum"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return content | {"checksum": hashlib.sha256(text.encode()).hexdigest()}


def test_the_newest_file_is_what_this_version_writes() -> None:
    assert build_all() == read_stored(NEWEST), (
        "what is stored has another form now: write a new file, see writing.py; a form that an "
        "earlier version cannot go on from needs another contract version"
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", STEPS)
def test_a_table_goes_on_from_the_state_document(path: Path, name: str) -> None:
    document = StateDocument.parse("orders", read_stored(path)["states"][name])
    recorded = build_states()[name]
    for field in ("index", "index_uuid", "applied", "last_ordinal", "totals", "document_spec"):
        assert getattr(document, field) == getattr(recorded, field), field
    inputs = make_view(
        document, head="78", readable=frozenset({"77", "78"}), last_sequence_number=4
    )
    for policies in (REBUILDING, STOPPING):
        assert choose_step(inputs, policies).kind is STEPS[name]
    claimed = document.claim(NEXT, now=TEXT)
    assert StateDocument.parse("orders", claimed.to_source()) == claimed
    assert claimed.to_source()["contractVersion"] == 6


def test_the_index_that_an_open_export_replaces_can_be_used_again() -> None:
    document = StateDocument.parse("orders", read_stored(NEWEST)["states"]["replacing"])
    assert document == build_states()["replacing"]
    back = document.claim(NEXT, now=TEXT).roll_back(
        Shards(histories="abc", max_seq_nos=[14, -1]), None, now=TEXT
    )
    assert (back.index, back.intent, back.last_number) == ("orders-000001", None, 2)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_batch_that_was_under_way_is_finished_as_it_was_begun(path: Path) -> None:
    document = StateDocument.parse("orders", read_stored(path)["states"]["changing"])
    intent = document.intent
    assert intent is not None
    assert intent.has_same_work(build_states()["changing"].intent or intent)
    applied = Applied(snapshot_id="78", sequence_number=4, committed_at=TEXT, ordinal=2)
    advanced = document.claim(NEXT, now=TEXT).advance(applied, now=TEXT)
    assert (advanced.applied, advanced.intent) == (applied, None)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_documents_of_an_index_that_it_made_are_those_of_now(path: Path) -> None:
    meta = read_stored(path)["mapping"]["_meta"]
    now = build_documents().compare_with_stored(meta["documentSpec"])
    assert (now.reason, now.added) == (None, ())
    assert read_stored(path)["states"]["exported"]["documentSpec"] == build_documents().hash


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_run_that_it_has_started_is_neither_forgotten_nor_started_again(path: Path) -> None:
    status = parse_status(read_stored(path)["status"])
    assert status == build_status()
    run = RunSeen("shop-e1-2", 1002, RunPhase.RUNNING, writer_alive=True)
    tables = [
        {"name": table.name, "index": table.index, "identifierColumns": ["id"]}
        for table in status.tables
    ]
    world = replace(make_observed(make_spec(tables=tables), status), runs=(run,))
    decision = decide(world, MOMENT + timedelta(seconds=5))
    assert decision.actions == ()
    before, after = status.current_run, decision.status.current_run
    assert before is not None
    assert after is not None
    assert (after.run_id, after.epoch, after.attempt) == (before.run_id, 1002, 2)
    assert decision.status.tables == status.tables


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_report_and_the_request_of_a_run_are_read(path: Path) -> None:
    content, report = read_stored(path), build_report()
    assert RunReport.model_validate_json(json.dumps(content["report"])) == report
    assert report_text.from_annotation(content["annotation"]) == (report, None)
    ending, problem = report_text.from_termination_message(content["termination"])
    assert ending is not None
    assert (ending.run_id, ending.outcome, problem) == (report.run_id, report.outcome, None)
    assert RunRequest.model_validate_json(json.dumps(content["request"])) == build_request()


def test_a_document_of_a_version_to_come_is_left_alone_and_says_so() -> None:
    source = read_stored(NEWEST)["states"]["exported"]
    newer = add_checksum(source | {"contractVersion": 7, "unheardOf": True})
    with pytest.raises(StateCorrupt, match=r"newer version \(contract 7\)\. Run that version"):
        StateDocument.parse("orders", newer)
