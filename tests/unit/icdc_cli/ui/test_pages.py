"""What the pages say."""

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any

import pytest

from icdc_api import errors
from icdc_api.status.pipeline_status import (
    Phase,
    PipelineStatus,
    TableReason,
    TableStatus,
    Verification,
)
from icdc_api.status.runs import Failure, RunState
from icdc_api.status.table_parts import ExportProgress, LastBatch
from icdc_cli.commands.ui import needs, overview, pipeline_page, plots
from icdc_cli.commands.ui.cells import Frame
from icdc_cli.commands.ui.elements import Element, render
from icdc_cli.commands.ui.history import MAX_BATCHES, BatchMemory
from icdc_cli.commands.ui.plots import Bar
from icdc_cli.commands.ui.readers import PageReading, ReadRefusal, SeenPipeline, parse_resource
from icdc_testing.operator.deciding.pipelines import NOW, make_caught_up, make_stalled, run_record

pytestmark = pytest.mark.unit

FRAME = Frame("/token/", NOW)
MakePipeline = Callable[..., SeenPipeline]
MakeReading = Callable[..., PageReading]


def read(element: Element) -> str:
    """Return the text of a page, without its style sheet."""
    return unescape(re.sub(r"<style>.*?</style>|<[^>]*>", "", render(element), flags=re.DOTALL))


def test_what_needs_a_person_comes_first(
    make_pipeline: MakePipeline, make_reading: MakeReading
) -> None:
    stalled = make_pipeline(make_stalled(TableReason.GAP), name="c", phase=Phase.STALLED)
    failing = make_pipeline(make_caught_up(), name="b", phase=Phase.RETRYING)
    well = make_pipeline(make_caught_up(), name="a", phase=Phase.STREAMING)
    new = parse_resource({"metadata": {"namespace": "sales", "name": "d"}})
    text = read(overview.build_overview(FRAME, make_reading(well, new, failing, stalled)))
    assert "4 pipelines: 1 Stalled, 1 Retrying, 1 Streaming, 1 new" in text
    positions = [text.index(f"sales/{name}") for name in "cbda"]
    assert positions == sorted(positions)


def make_export(**fields: Any) -> TableStatus:
    export = ExportProgress(chunks_total=8, **fields)
    return TableStatus(name="shop.a", index="a", state="Exporting", export=export)


@pytest.mark.parametrize(
    ("phase", "tables", "shown"),
    [
        (Phase.STALLED, (make_stalled(TableReason.GAP),), "Stalled Gap"),
        (Phase.RETRYING, (make_stalled(TableReason.THROTTLED),), "Retrying Throttled"),
        (Phase.STREAMING, (make_caught_up(dead_letters=3),), "Streaming "),
        (Phase.EXPORTING, (make_export(),), "Exporting "),
        (Phase.EXPORTING, (make_export(rows=50, rows_total=200),), "Exporting 25%"),
        (Phase.EXPORTING, (make_export(rows=9, rows_total=8),), "Exporting 100%"),
        (
            Phase.EXPORTING,
            (make_export(rows=1, rows_total=2, estimated_end=NOW + timedelta(seconds=600)),),
            "Exporting 50%, 10m left",
        ),
        (
            Phase.EXPORTING,
            (make_export(rows=1, rows_total=2, estimated_end=NOW - timedelta(seconds=1)),),
            "Exporting 50%",
        ),
        # How much of both that is, and when both end, nobody knows.
        (Phase.EXPORTING, (make_export(rows=1, rows_total=2), make_export()), "Exporting "),
    ],
)
def test_a_state_has_its_cause_or_how_far_it_is_beside_it(
    phase: Phase,
    tables: tuple[TableStatus, ...],
    shown: str,
    make_pipeline: MakePipeline,
    make_reading: MakeReading,
) -> None:
    reading = make_reading(make_pipeline(*tables, phase=phase))
    row = render(overview.build_overview(FRAME, reading)).partition('data-label="State">')[2]
    assert unescape(re.sub("<[^>]*>", "", row.partition("</td>")[0])) == shown


def test_a_state_that_nothing_confirms_any_more_says_for_how_long(
    unheard: SeenPipeline, make_reading: MakeReading
) -> None:
    page = read(overview.build_overview(FRAME, make_reading(unheard)))
    assert "Streaming NotReported for 0s" in page


def test_what_may_not_be_read_is_said_beside_the_rest(
    make_pipeline: MakePipeline, make_reading: MakeReading
) -> None:
    refusal = ReadRefusal("namespace lake", "jane cannot list", "the platform engineer")
    reading = make_reading(make_pipeline(make_caught_up()), refusals=(refusal,))
    text = read(overview.build_overview(FRAME, reading))
    assert "sales/shop" in text
    assert "Not shown: namespace lakejane cannot listWho acts: the platform engineer" in text


def make_compared(**fields: Any) -> TableStatus:
    return make_caught_up(verification=Verification(at=NOW - timedelta(hours=3), **fields))


@pytest.mark.parametrize(
    ("tables", "shown"),
    [
        ((), "never"),
        ((make_caught_up(),), "never"),
        ((make_compared(equal=True),), "equal 3h ago"),
        ((make_compared(equal=True), make_caught_up()), "1 of 2 equal 3h ago"),
        ((make_compared(equal=False, repaired=4),), "repaired 3h ago"),
        ((make_compared(equal=False, missing=4, repaired=3),), "1 differs 3h ago"),
        ((make_compared(equal=False, missing=1), make_compared(equal=True)), "1 differs 3h ago"),
        ((make_compared(equal=False, missing=1),) * 2, "2 differ 3h ago"),
        ((make_compared(reason="BatchUnderWay"),), "1 not compared 3h ago"),
    ],
)
def test_the_proof_of_a_pipeline_is_that_of_its_worst_table(
    tables: tuple[TableStatus, ...], shown: str
) -> None:
    assert read(overview.build_proof(FRAME, tables)) == shown


@pytest.mark.parametrize(
    ("table", "shown"),
    [
        (make_compared(equal=True, missing=0), "equal 3h ago"),
        (make_compared(equal=False, missing=3, extra=0, different=1), "3 missing, 1 different"),
        (make_compared(equal=False, missing=3, repaired=3), "3 missing, 3 repaired"),
        (make_compared(reason="BatchUnderWay", message="later"), "BatchUnderWay: later"),
    ],
)
def test_the_proof_of_a_table_has_what_it_found(
    table: TableStatus, shown: str, make_pipeline: MakePipeline, make_reading: MakeReading
) -> None:
    pipeline = make_pipeline(table)
    page = pipeline_page.build_pipeline_page(FRAME, make_reading(pipeline), pipeline, ())
    assert shown in read(page)


def test_a_stall_has_its_meaning_who_acts_and_the_cure_with_names_filled_in(
    make_pipeline: MakePipeline, make_reading: MakeReading
) -> None:
    pipeline = make_pipeline(make_stalled(TableReason.GAP), make_caught_up("shop.customers"))
    page = pipeline_page.build_pipeline_page(FRAME, make_reading(pipeline), pipeline, ())
    text = read(page)
    assert "Gap · table shop.orders" in text
    assert "The changes since the applied snapshot are lost." in text
    assert "Who acts: the author of the pipeline." in text
    assert "icdc resync shop -n sales --table shop.orders\n" in text
    assert "Nextnothing, until somebody acts: see below" in text


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, []),
        ({"tables": (make_stalled(TableReason.GAP),)}, [("Gap", "bad")]),
        (
            {"tables": (make_stalled(TableReason.THROTTLED), make_stalled(TableReason.GAP))},
            [("Gap", "bad"), ("Throttled", "warn")],
        ),
        ({"tables": (make_caught_up(dead_letters=3),)}, [("Refused", "warn")]),
        (
            {"last_run": Failure.of(errors.OutOfMemory("heap"))},
            [("OutOfMemory", "bad")],
        ),
        # The condition Stalled repeats the failure of the run.
        (
            {
                "last_run": Failure.of(errors.TargetUnavailable("no answer")),
                "consecutive_failures": 9,
            },
            [("TargetUnavailable", "warn")],
        ),
    ],
)
def test_a_cause_is_shown_once_and_what_a_person_must_remove_comes_first(
    fields: dict[str, Any], expected: list[tuple[str, str]], make_pipeline: MakePipeline
) -> None:
    failure = fields.pop("last_run", None)
    if failure is not None:
        last = run_record(state=RunState.FAILED, finished_at=NOW, failure=failure)
        fields = {**fields, "last_run": last}
    tables = fields.pop("tables", (make_caught_up(),))
    causes = needs.list_needs(make_pipeline(*tables, **fields))
    assert [(need.word, need.tone.value) for need in causes] == expected


@pytest.mark.parametrize("name", ["a b", "$(rm -rf ~)", "`t`.x", "-rf", "a;b", "it's"])
def test_a_name_that_a_shell_reads_is_not_put_into_a_command(
    name: str, make_pipeline: MakePipeline
) -> None:
    table = make_stalled(TableReason.GAP).model_copy(update={"name": name})
    (need,) = needs.list_needs(make_pipeline(table))
    assert need.fill("icdc resync NAME --table TABLE") == "icdc resync shop --table TABLE"


def test_an_export_shows_how_far_it_is_how_fast_and_when_it_ends(
    make_pipeline: MakePipeline, make_reading: MakeReading
) -> None:
    export = ExportProgress(
        chunks_total=8,
        chunks_done=3,
        rows=1_200_000,
        rows_total=3_000_000,
        rows_per_second=12_400,
        estimated_end=NOW + timedelta(seconds=145),
    )
    pipeline = make_pipeline(
        TableStatus(name="shop.a", index="a", state="Exporting", export=export)
    )
    page = pipeline_page.build_pipeline_page(FRAME, make_reading(pipeline), pipeline, ())
    assert (
        "3 of 8 chunks; 1,200,000 of 3,000,000 rows; 12,400 rows a second; "
        "ends about 2026-03-01 12:02:25 UTC (in 2m)"
    ) in read(page)
    assert 'class="done" width="64.0"' in render(page)


def test_of_many_tables_those_in_need_are_shown_and_the_rest_by_a_link(
    make_pipeline: MakePipeline, make_reading: MakeReading
) -> None:
    well = [make_caught_up(f"shop.t{number}") for number in range(80)]
    pipeline = make_pipeline(*well, make_caught_up("shop.late", snapshots_behind=1, lag_seconds=9))
    frame = Frame("/token/", NOW, "pipelines/sales/shop")
    page = pipeline_page.build_pipeline_page(frame, make_reading(pipeline), pipeline, ())
    assert "31 more, which need less" in read(page)
    assert "shop.late" in read(page)
    assert 'href="/token/pipelines/sales/shop?all"' in render(page)
    whole = Frame("/token/", NOW, every=True)
    page = pipeline_page.build_pipeline_page(whole, make_reading(pipeline), pipeline, ())
    assert "shop.t79" in read(page)


def make_with_batch(seconds: int, upserted: int = 10) -> TableStatus:
    return make_caught_up(
        last_batch=LastBatch(at=NOW + timedelta(seconds=seconds), upserted=upserted)
    )


def test_batches_are_remembered_for_as_long_as_their_pipeline_is_seen(
    make_pipeline: MakePipeline, make_reading: MakeReading
) -> None:
    memory = BatchMemory()
    for _ in range(2):
        memory.add(make_reading(make_pipeline(make_with_batch(0))))
    assert len(memory.find("sales", "shop")) == 1
    for second in range(1, MAX_BATCHES + 2):
        memory.add(make_reading(make_pipeline(make_with_batch(second))))
    seen = memory.find("sales", "shop")
    assert [(one.batch.at - NOW).seconds for one in seen] == list(range(2, MAX_BATCHES + 2))
    memory.add(make_reading())
    assert memory.find("sales", "shop") == ()


def test_batches_and_runs_are_plotted_from_the_second_on(
    make_pipeline: MakePipeline, make_reading: MakeReading
) -> None:
    memory = BatchMemory()
    for number, plots_shown in ((1, 0), (2, 4)):
        pipeline = make_pipeline(make_with_batch(number, upserted=number * 500))
        memory.add(make_reading(pipeline))
        seen = memory.find("sales", "shop")
        page = pipeline_page.build_pipeline_page(FRAME, make_reading(pipeline), pipeline, seen)
        assert render(page).count("<svg") == plots_shown
    assert "Rows last 1,000, most 1,000" in read(page)
    ended = run_record(state=RunState.SUCCEEDED, finished_at=NOW)
    pipeline = make_pipeline(make_caught_up(), last_run=ended, recent_runs=(ended, ended))
    page = pipeline_page.build_pipeline_page(FRAME, make_reading(pipeline), pipeline, ())
    assert 'aria-label="Time of 2 runs, longest 20s"' in render(page)


def test_the_highest_bar_fills_the_plot_and_the_smallest_is_still_there() -> None:
    svg = render(plots.draw_bars([Bar(1, "a"), Bar(0, "b"), Bar(1_000_000, "c")], "rows"))
    heights = [part.partition('"')[0] for part in svg.split(' height="')[2:]]
    assert heights == ["1.0", "0.0", f"{plots.HEIGHT - 2:.1f}"]


def test_a_status_of_another_version_is_shown_as_unreadable(make_reading: MakeReading) -> None:
    pipeline = parse_resource({"metadata": {"name": "shop"}, "status": {"phase": "Dreaming"}})
    page = pipeline_page.build_pipeline_page(FRAME, make_reading(pipeline), pipeline, ())
    assert "Unreadable" in read(page)
    assert "written by another version" in read(page)
    assert pipeline.status == PipelineStatus()
