"""`spec.verify` while a run follows the tables: it is asked for one table after the other."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from icdc_api.job.run_files import RunQuestion
from icdc_api.status.pipeline_status import TableReason, TableState
from icdc_api.status.runs import RunKind
from icdc_operator.core import events
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import Observed
from icdc_testing.operator.deciding.comparing import ORDERS
from icdc_testing.operator.deciding.pipelines import NOW

from .followed_pipeline import (
    EQUAL,
    RUN,
    TABLES,
    VERIFY,
    get_question,
    make_followed,
    make_run,
    resync,
)
from .proven_pipeline import EVERY, get_planned_kind, make_compared, make_hours, make_idle

pytestmark = pytest.mark.unit


def make_continuous(age: float, *, started: float = 2, **spec: Any) -> Observed:
    """Return a pipeline whose continuous run follows two tables."""
    return _set_age(make_followed(**(EVERY | spec)), age, started=started)


def _set_age(world: Observed, age: float, *, started: float) -> Observed:
    run = RUN.model_copy(update={"started_at": NOW - make_hours(started)})
    tables = tuple(make_compared(name, age) for name in TABLES)
    update = {"current_run": run, "tables": tables}
    return replace(world, status=world.status.model_copy(update=update))


@pytest.mark.parametrize(("age", "started"), [(7.9, 30), (30, 0.9)])
def test_a_continuous_run_is_asked_once_it_is_due_and_has_run_for_a_tenth(
    age: float, started: float
) -> None:
    assert decide(make_continuous(age, started=started), NOW).actions == ()


def test_a_run_that_lives_for_a_day_is_asked_although_a_tenth_of_the_time_is_longer() -> None:
    """As where nodes are replaced daily."""
    month = {"verify": {"every": "30d"}}
    assert decide(make_continuous(30 * 24, started=0.9, **month), NOW).actions == ()
    assert decide(make_continuous(30 * 24, started=1.1, **month), NOW).actions != ()


def test_with_the_trigger_continuous_no_run_of_its_own_compares() -> None:
    world = make_idle(make_compared(ORDERS, 30), changelog={"trigger": "Continuous"})
    decision = decide(replace(world, heads=None, heads_watched=False), NOW)
    assert get_planned_kind(decision) == RunKind.CHANGELOG


def take_up(world: Observed, question: RunQuestion, *entries: dict[str, Any]) -> Observed:
    """Return the same once the driver has taken up the question; complete with an entry."""
    answer = {"question": question.id, "complete": bool(entries), "tables": list(entries)}
    return replace(world, runs=(make_run(result=answer),))


def test_a_continuous_run_compares_table_after_table_and_each_answer_counts() -> None:
    world = make_continuous(8.5, verify={"every": "10h", "onDifference": "Repair"})
    first = get_question(decide(world, NOW))
    assert first is not None
    assert (first.mode, first.tables) == ("repair", TABLES[:1])
    later = NOW + timedelta(minutes=20)
    assert get_question(decide(world, later)) == first, "it is the same until it is answered"

    decision = decide(take_up(world, first, EQUAL[0]), later)
    second = get_question(decision)
    assert second is not None
    assert second.tables == TABLES[1:]
    differs = EQUAL[1] | {"equal": False, "missing": {"count": 1, "samples": ["7"]}}
    world = take_up(replace(world, status=decision.status), second, differs)
    decision = decide(world, later)
    assert get_question(decision) is None
    results = [table.verification for table in decision.status.tables]
    assert [(one.equal, one.at, one.nonce) for one in results if one] == [
        (True, later, None),
        (False, later, None),
    ]
    reasons = [one.reason for one in events.derive_events(world.status, decision.status)]
    assert reasons == ["DifferencesFound"]
    # Its answer stays in the report for a minute.
    again = decide(replace(world, status=decision.status), later + timedelta(seconds=5))
    assert again.status.tables == decision.status.tables


def test_what_the_driver_has_begun_is_asked_whatever_the_states_of_tables_are() -> None:
    world = make_continuous(8.5)
    question = get_question(decide(world, NOW))
    assert question is not None
    world = take_up(world, question)
    stalled = {"state": TableState.STALLED, "reason": TableReason.SOURCE_UNAVAILABLE}
    tables = (world.status.tables[0].model_copy(update=stalled), world.status.tables[1])
    (run,) = world.runs
    assert run.report is not None
    run = replace(run, report=run.report.model_copy(update={"tables": tables}))
    assert get_question(decide(replace(world, runs=(run,)), NOW)) == question


def test_a_person_s_question_goes_before_a_proof_that_was_begun() -> None:
    world = make_continuous(8.5)
    question = get_question(decide(world, NOW))
    assert question is not None
    asked = get_question(decide(replace(take_up(world, question), ask=VERIFY), NOW))
    assert asked is not None
    assert asked.id == VERIFY.id


@pytest.mark.parametrize(
    "name", ["proof-9-{past}-2000", "proof-0-{past}-1999", "proof-0-9999999999999999-2000", 7]
)
def test_what_a_driver_names_that_it_was_not_asked_is_not_recorded(name: Any) -> None:
    world = make_continuous(1)
    past = int((NOW - make_hours(0.5)).timestamp() * 1000)
    name = name.format(past=past) if isinstance(name, str) else name
    answer = {"question": name, "complete": True, "tables": EQUAL}
    decision = decide(replace(world, runs=(make_run(result=answer),)), NOW)
    assert decision.status.tables == world.status.tables


def test_what_a_person_requests_comes_before() -> None:
    world = _set_age(resync(**EVERY), 30, started=30)
    adopted = decide(world, NOW)
    question = get_question(decide(replace(world, status=adopted.status), NOW))
    assert question is not None
    assert question.id.startswith("resync-1-")
