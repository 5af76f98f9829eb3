"""Whose turn it is: limits, fairness, and what becomes of a turn that is not used."""

import pytest

from icdc_api.status.runs import RunKind
from icdc_operator.cluster.loop.admission import (
    CALL_SECONDS,
    COUNT_SECONDS,
    POSITION_SECONDS,
    POSITIONS_A_MINUTE,
)
from icdc_operator.cluster.loop.slots import Limits
from icdc_operator.cluster.queue import PipelineKey
from icdc_testing.operator.adapter.site import HOST, Site

pytestmark = pytest.mark.unit

A1, A2, A3, A4 = (PipelineKey("a", f"a{number}") for number in range(1, 5))
B1, B2 = PipelineKey("b", "b1"), PipelineKey("b", "b2")


def test_without_limits_nobody_waits_and_nobody_is_woken() -> None:
    site = Site(Limits(), counted=False)
    assert site.want(A1, A2, B1) == [None, None, None]
    assert (site.admission.active, site.admission.waiting) == (3, 0)
    site.end(A1)
    assert (site.admission.active, site.woken, site.waited) == (2, [], [0, 0, 0])


def test_the_longest_wait_is_that_of_a_run_that_still_waits() -> None:
    site = Site(Limits(total=1))
    assert site.admission.find_longest_wait(site.now) == 0
    site.want(A1, A2, B1)  # one second apart
    site.seconds += 100
    longest = site.admission.find_longest_wait(site.now)
    site.end(A1)
    assert site.wake() == {A2}
    # That took a second, so B1 has waited now as long as A2 had.
    assert (longest, site.admission.find_longest_wait(site.now)) == (101, 101)


@pytest.mark.parametrize("kind", [RunKind.DELETION, RunKind.PLAN, RunKind.DEAD_LETTERS])
def test_a_deletion_and_a_question_without_executors_wait_for_nobody_and_count(
    kind: RunKind,
) -> None:
    site = Site(Limits(total=1))
    assert site.want(A1) == [None]
    assert site.want(A2, kind=kind) == [None]
    assert (site.admission.active, site.admission.waiting) == (2, 0)
    site.end(A1)
    site.want(A3)
    assert site.locate(A3) == "queue position 1 of 1: the limit --max-active-runs (1) is reached"


@pytest.mark.parametrize(
    ("limits", "other", "host", "text"),
    [
        (Limits(total=1), B1, "http://x", "--max-active-runs (1)"),
        (Limits(per_namespace=1), A2, "http://x", "--max-active-runs-per-namespace (1)"),
        (Limits(per_namespace=1), B1, HOST, None),
        (Limits(per_target=1), B1, "https://SEARCH:9200/", "--max-active-runs-per-target (1)"),
        (Limits(per_target=1), A2, "https://search", None),
        (Limits(1, 1, 1), A2, HOST, "--max-active-runs-per-target (1)"),
    ],
)
def test_the_narrowest_limit_that_is_reached_is_named(
    limits: Limits, other: PipelineKey, host: str, text: str | None
) -> None:
    site = Site(limits)
    assert site.want(A1) == [None]
    (queued,) = site.want(other, host=host)
    if text is None:
        assert queued is None
    else:
        assert queued is not None
        assert queued.text == f"queue position 1 of 1: the limit {text} is reached"


def test_who_waits_for_its_own_limit_stands_in_nobodys_way() -> None:
    site = Site(Limits(total=2, per_namespace=1))
    site.want(A1, A2, A3)
    assert site.want(B1) == [None]
    site.want(B2)
    assert (
        site.locate(A3)
        == "queue position 2 of 2: the limit --max-active-runs-per-namespace (1) is reached"
    )
    site.end(A1)
    assert site.wake() == {A2}
    assert (
        site.locate(B2)
        == "queue position 1 of 1: the limit --max-active-runs-per-namespace (1) is reached"
    )


def test_the_namespace_with_the_fewest_runs_goes_first_then_who_waits_longest() -> None:
    site = Site(Limits(total=2))
    site.want(A1, A2, A3, A4, B1, B2)
    line = [site.locate(key) for key in (B1, A3, B2, A4)]
    assert line == [
        f"queue position {n} of 4: the limit --max-active-runs (2) is reached" for n in (1, 3, 2, 4)
    ]
    turns = []
    for ended in (A1, A2, B1, A3):
        site.end(ended)
        turns.append(site.wake())
    assert turns == [{B1}, {A3}, {B2}, {A4}]


def test_a_release_wakes_only_who_is_next() -> None:
    site = Site(Limits(total=1))
    waiting = [PipelineKey(f"namespace-{number % 7}", f"shop-{number}") for number in range(300)]
    site.want(A1, *waiting)
    site.end(A1)
    assert site.woken == [waiting[0]]


def test_in_a_long_line_each_place_is_looked_up_less_often() -> None:
    site = Site(Limits(total=1))
    count = 3 * POSITIONS_A_MINUTE
    *_, last = site.want(A1, *(PipelineKey("b", f"b{number}") for number in range(count)))
    assert last is not None
    assert last.poll_after == 3 * POSITION_SECONDS
    site = Site(Limits(total=1))
    _, only = site.want(A1, A2)
    assert only is not None
    assert only.poll_after == POSITION_SECONDS


def test_a_slot_is_kept_for_who_is_next_but_not_for_long() -> None:
    site = Site(Limits(total=1))
    site.want(A1, A2, A3)
    site.end(A1)
    assert site.locate(A3) == "queue position 1 of 1: the limit --max-active-runs (1) is reached"
    site.seconds += CALL_SECONDS + 1
    assert site.reconcile(A3) is None
    assert site.locate(A2) == "queue position 1 of 1: the limit --max-active-runs (1) is reached"
    site.end(A3)
    assert site.wake() == {A2}


def test_a_new_run_of_the_same_pipeline_stands_in_line_again() -> None:
    site = Site(Limits(total=1))
    site.want(A1, A2)
    site.pipelines[A1].wants = True
    site.end(A1)
    assert site.wake() == {A2}
    assert site.locate(A1) == "queue position 1 of 1: the limit --max-active-runs (1) is reached"


@pytest.mark.parametrize("how", ["wants none", "gone", "refused"])
def test_a_turn_that_is_not_used_is_given_to_the_next(how: str) -> None:
    site = Site(Limits(total=1))
    site.want(A1, A2, A3)
    site.end(A1)
    site.woken.clear()
    if how == "wants none":
        site.pipelines[A2].wants = False
        site.reconcile(A2)
    elif how == "gone":
        site.admission.forget(A2)
    else:
        site.reconcile(A2, saved=False)
        site.admission.note_refused(A2)
    assert site.wake() == {A3}


def test_who_was_refused_keeps_its_place() -> None:
    site = Site(Limits(total=1))
    site.want(A1, A2, A3, A4)
    site.end(A1)
    site.reconcile(A2, saved=False)
    site.admission.note_refused(A2)
    assert site.wake() == {A3}
    site.reconcile(A2)
    site.end(A3)
    assert site.wake() == {A2}


def test_a_plan_that_was_perhaps_written_keeps_its_slot_until_a_look_knows() -> None:
    site = Site(Limits(total=1))
    site.want(A1, A2, A3)
    site.end(A1)
    site.reconcile(A2, saved=False)
    site.seconds += 10 * CALL_SECONDS
    assert site.locate(A3) == "queue position 1 of 1: the limit --max-active-runs (1) is reached"
    assert site.reconcile(A2) is None
    assert site.running == {A2}


def test_after_a_restart_nothing_starts_before_every_pipeline_was_looked_at_once() -> None:
    site = Site(Limits(total=2))
    site.want(A1, A2, A3, B1)
    site.restart()
    assert site.locate(B1) is None
    site.admission.note_listed(site.pipelines)
    for key in (B1, A3, A1):
        site.reconcile(key)
    site.admission.note_reconciled(A2)  # it cannot be looked at
    assert site.wake() == {B1}
    assert site.locate(A3) == "queue position 1 of 1: the limit --max-active-runs (2) is reached"


def test_a_pipeline_that_is_never_looked_at_stops_nobody_for_long() -> None:
    site = Site(Limits(total=1), counted=False)
    site.admission.note_listed((A1, A2))
    site.want(A1)
    assert site.running == set()
    site.seconds += COUNT_SECONDS
    assert site.reconcile(A1) is None


def test_after_a_restart_those_go_first_that_waited_longest_before() -> None:
    site = Site(Limits(total=1))
    site.want(A1, A2, A3, B1)
    site.restart()
    site.admission.note_listed(site.pipelines)
    for key in (A3, B1, A2, A1):
        site.reconcile(key)
    site.end(A1)
    assert site.wake() == {A2}


def test_who_waits_keeps_its_place_when_a_changed_spec_clears_its_status() -> None:
    site = Site(Limits(total=1))
    site.want(A1, A2, A3)
    site.pipelines[A2].since = None
    site.seconds += 1
    assert site.locate(A2) == "queue position 1 of 2: the limit --max-active-runs (1) is reached"


def test_more_runs_than_allowed_are_let_be_and_none_starts_meanwhile() -> None:
    site = Site(Limits())
    site.want(A1, A2, B1)
    site.limits = Limits(total=2)
    site.restart()
    site.admission.note_listed(site.pipelines)
    for key in (A1, A2, B1):
        site.reconcile(key)
    site.want(B2)
    for ended, turn in ((A1, set()), (A2, {B2})):
        site.end(ended)
        assert site.wake() == turn


def test_a_run_is_counted_where_it_began_when_the_spec_names_another_target() -> None:
    site = Site(Limits(per_target=1))
    site.want(A1)
    site.pipelines[A1].host = "http://other"
    site.reconcile(A1)
    (queued,) = site.want(A2)
    assert queued is not None
    assert site.want(B1, host="http://other") == [None]


def test_how_long_a_run_waited_is_told_once() -> None:
    site = Site(Limits(total=1))
    site.want(A1, A2)
    site.seconds += 39
    site.end(A1)
    site.wake()
    site.reconcile(A2)
    assert site.waited == [0, 40]


@pytest.mark.parametrize(
    ("limits", "waiting", "is_waited_for"),
    [
        (Limits(total=1), A2, True),
        (Limits(total=1), B1, True),
        (Limits(per_namespace=1), A2, True),
        (Limits(per_target=1), B1, True),
        (Limits(total=2), A2, False),
    ],
)
def test_a_pipeline_is_waited_for_where_its_run_leaves_no_room(
    limits: Limits, waiting: PipelineKey, is_waited_for: bool
) -> None:
    site = Site(limits)
    site.want(A1, waiting)
    assert site.admission.is_waited_for(A1) is is_waited_for
    assert not site.admission.is_waited_for(waiting)


def test_a_pipeline_is_not_waited_for_where_another_limit_is_in_the_way() -> None:
    site = Site(Limits(per_namespace=1))
    site.want(A1, B1, B2)
    assert site.admission.is_waited_for(B1)
    assert not site.admission.is_waited_for(A1)


def test_as_many_give_way_as_wait() -> None:
    site = Site(Limits(total=3))
    site.want(A1, A2, A3, B1)
    assert site.admission.is_waited_for(A1)
    site.ask_to_end(A1)
    assert [site.admission.is_waited_for(key) for key in (A1, A2, A3)] == [True, False, False]
    site.want(B2)
    assert site.admission.is_waited_for(A2)
