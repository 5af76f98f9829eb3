"""What conditions and events say of 500 tables: bounded, with a number, and each reason once."""

from dataclasses import replace

import pytest

from icdc_api.base import MAX_TABLES, MAX_TEXT
from icdc_api.errors import WhoActs
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import (
    Duplicates,
    PipelineStatus,
    TableReason,
    TableState,
    TableStatus,
)
from icdc_api.status.runs import RunKind, RunState
from icdc_operator.cluster.kube.event_object import build_event
from icdc_operator.core import retry
from icdc_operator.core.conditions import summary
from icdc_operator.core.conditions.messages import AFTER_REFUSALS, MAX_LIST, MAX_LISTED, list_some
from icdc_operator.core.decide import decide
from icdc_operator.core.events import derive_events
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    make_caught_up,
    make_observed,
    make_spec,
    run_record,
)
from icdc_testing.operator.deciding.worst_cases import make_long_name

pytestmark = pytest.mark.unit

NAMES = [make_long_name(number, 60) for number in range(MAX_TABLES)]
SPEC = make_spec(*NAMES)
ACTS = "; action required: the author of the pipeline"
ENDS = {ConditionType.DEAD_LETTERS: f"; {AFTER_REFUSALS}"}
PIPELINE = {"metadata": {"name": "shop", "namespace": "team", "uid": "1"}}
LEFT = f"; and {MAX_TABLES - MAX_LISTED} more"


def build_message(kind: ConditionType, *tables: TableStatus) -> str:
    last = run_record(state=RunState.SUCCEEDED, finished_at=NOW, generation=1)
    status = PipelineStatus(observed_generation=1, tables=tables, last_run=last)
    conditions = summary.build_conditions(status, make_observed(SPEC), now=NOW)
    return next(condition.message for condition in conditions if condition.type == kind)


def make_stalled(name: str, text: str = "m" * MAX_TEXT) -> TableStatus:
    fields = {"state": TableState.STALLED, "reason": TableReason.GAP, "message": text}
    return TableStatus(name=name, index=name, **fields)


def make_pending(name: str) -> TableStatus:
    return TableStatus(name=name, index=name)


def make_refusing(name: str) -> TableStatus:
    return make_caught_up(name, dead_letters=7)


def make_unpinned(name: str) -> TableStatus:
    return make_caught_up(name, snapshot_pinned=False, pin_message="m" * MAX_TEXT)


def make_behind(name: str) -> TableStatus:
    return make_caught_up(name, snapshots_behind=3)


def make_duplicated(name: str) -> TableStatus:
    return make_caught_up(name, duplicates=Duplicates(count=9, samples=("i" * 253,) * 20))


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        (ConditionType.STALLED, make_stalled),
        (ConditionType.READY, make_stalled),
        (ConditionType.DUPLICATES, make_duplicated),
        (ConditionType.EXPORTED, make_pending),
        (ConditionType.CAUGHT_UP, make_behind),
        (ConditionType.SNAPSHOTS_PINNED, make_unpinned),
        (ConditionType.DEAD_LETTERS, make_refusing),
    ],
)
def test_a_condition_names_some_tables_and_counts_the_others(
    kind: ConditionType, table: object
) -> None:
    assert callable(table)
    message = build_message(kind, *map(table, NAMES))
    assert len(message) < MAX_TEXT
    assert message.endswith(LEFT + ENDS.get(kind, ACTS if table is make_stalled else ""))
    assert [name in message for name in NAMES[: MAX_LISTED + 1]] == [True] * MAX_LISTED + [False]


def test_a_list_is_cut_only_where_it_is_too_long() -> None:
    fits = ["x" * 150] * MAX_LISTED
    assert list_some(fits, total=MAX_LISTED) == "; ".join(fits)
    cut = list_some(["x" * 900, "y"], total=400)
    assert len(cut) <= MAX_LIST
    assert cut.endswith("x…; y; and 398 more")
    assert list_some([], total=0) == ""


def test_a_table_without_a_message_about_its_pin_has_it_in_the_log() -> None:
    table = make_caught_up(NAMES[0], snapshot_pinned=False)
    assert build_message(ConditionType.SNAPSHOTS_PINNED, table) == (
        f"{NAMES[0]}: see the log of the run"
    )


def test_what_happens_to_many_tables_at_once_is_one_event_for_each_reason() -> None:
    before = PipelineStatus(tables=tuple(map(make_pending, NAMES)))
    changed = (
        *map(make_stalled, NAMES[:450]),
        *map(make_refusing, NAMES[450:455]),
        *map(make_pending, NAMES[455:]),
    )
    events = derive_events(before, PipelineStatus(tables=changed))
    assert [event.reason for event in events] == ["TableStalled", *["DeadLetters"] * 5]
    first = events[0]
    assert first.warning
    assert first.message.startswith(f"450 tables: {NAMES[0]}: Gap: mm")
    assert first.message.endswith(f"; and 445 more{ACTS}")
    assert len(first.message) < MAX_TEXT


WAITING = sorted(set(TableReason) - retry.PASSING_REASONS)


def test_whoever_acts_on_stalled_tables_is_named_however_long_their_messages_are() -> None:
    everybody = sorted({retry.find_who_acts(reason) for reason in WAITING})
    assert len(everybody) == len(WhoActs) - 1
    tables = tuple(
        make_stalled(name).model_copy(update={"reason": reason})
        for name, reason in zip(NAMES, WAITING * 20, strict=False)
    )
    (event,) = derive_events(PipelineStatus(), PipelineStatus(tables=tables))
    posted = build_event(PIPELINE, name="e", reason="e", message=event.message, warning=True)
    texts = (
        build_message(ConditionType.READY, *tables),
        build_message(ConditionType.STALLED, *tables),
        posted["note"],
    )
    for text in texts:
        assert text.endswith(f"; action required: {', '.join(everybody)}")


@pytest.mark.parametrize(
    ("reasons", "ending"),
    [
        ([TableReason.GAP], "mm…; action required: the author of the pipeline"),
        (
            [TableReason.GAP, TableReason.TARGET_READ_ONLY, TableReason.GAP],
            "m…; action required: the administrator of OpenSearch, the author of the pipeline",
        ),
    ],
)
def test_a_stalled_pipeline_names_each_person_once(reasons: list[TableReason], ending: str) -> None:
    tables = [
        make_stalled(name).model_copy(update={"reason": reason})
        for name, reason in zip(NAMES, reasons, strict=False)
    ]
    for kind in (ConditionType.READY, ConditionType.STALLED):
        assert build_message(kind, *tables).endswith(ending)


def test_one_of_a_thing_is_said_in_the_singular() -> None:
    behind, refusing = make_caught_up("t", snapshots_behind=1), make_caught_up("t", dead_letters=1)
    assert build_message(ConditionType.CAUGHT_UP, behind) == "t: 1 snapshot behind"
    assert "t: 1 refused row, stored" in build_message(ConditionType.DEAD_LETTERS, refusing)


@pytest.mark.parametrize("text", ["Table t: it expired.", "t: it expired."])
def test_a_message_about_a_table_names_it_once(text: str) -> None:
    gap = make_stalled("t", text)
    (event,) = derive_events(PipelineStatus(), PipelineStatus(tables=(gap,)))
    assert event.message == f"t: Gap: it expired{ACTS}"
    assert build_message(ConditionType.STALLED, gap) == event.message
    failure = retry.build_passing_failure("t", reason="Throttled", message=text)
    assert failure.message == "t: it expired."


def test_an_event_of_a_table_with_a_passing_fault_says_that_it_is_retried() -> None:
    down = make_stalled("t", "no answer.").model_copy(update={"reason": TableReason.THROTTLED})
    (event,) = derive_events(PipelineStatus(), PipelineStatus(tables=(down,)))
    assert event.message == "t: Throttled: no answer; it is retried"


def test_many_cautions_about_a_spec_are_counted() -> None:
    catalog = {
        "properties": {"type": "rest", "uri": f"http://{'c' * 200}:8181"},
        "propertiesFrom": [{"secretRef": {"name": "lake"}}],
    }
    spec = make_spec(tables=[{"name": name, "catalog": catalog} for name in NAMES])
    conditions = summary.build_conditions(PipelineStatus(), make_observed(spec), now=NOW)
    (valid,) = (condition for condition in conditions if condition.type == ConditionType.SPEC_VALID)
    assert valid.message.startswith("spec.tables[0].catalog.properties.uri: the credentials of")
    assert valid.message.endswith(LEFT)


def test_a_deletion_of_many_indices_names_some_of_them() -> None:
    ended = run_record(kind=RunKind.DELETION, state=RunState.SUCCEEDED, finished_at=NOW)
    tables = tuple(make_caught_up(name, message=f"{name}: deleted {name}-000001") for name in NAMES)
    status = PipelineStatus(observed_generation=1, tables=tables, last_run=ended)
    spec = make_spec(*NAMES, deletionPolicy="DeleteIndices")
    observed = replace(
        make_observed(spec, status), deleting_since=NOW, finalizer=True, closing=True
    )
    ready = decide(observed, NOW).status.find_condition(ConditionType.READY)
    assert ready is not None
    assert (ready.reason, ready.message.endswith(LEFT)) == ("IndicesDeleted", True)
