"""A call that takes too long is reported while it runs, and never after it has ended."""

import threading
import time
from contextlib import ExitStack, suppress

import pytest

from icdc_api.errors import SourceUnavailable
from icdc_spark.process.call_watch import CallWatch

pytestmark = pytest.mark.unit

SECONDS = 60.0


def compute_late_moment() -> float:
    """Return a moment after the deadline of every call that has begun."""
    return time.monotonic() + SECONDS + 1


def test_a_call_that_takes_too_long_is_reported_once_and_fails_when_it_ends() -> None:
    watch, reported = CallWatch(SECONDS), list[str]()
    call = ExitStack()
    call.enter_context(watch.call("db.a", lambda: reported.append("db.a")))
    watch.report_overdue(time.monotonic())
    assert not reported
    watch.report_overdue(compute_late_moment())
    watch.report_overdue(compute_late_moment())
    assert reported == ["db.a"]
    with pytest.raises(SourceUnavailable, match=r"^db\.a: the catalog has accepted a request"):
        call.close()


def test_a_report_that_fails_keeps_no_other_call_from_being_reported() -> None:
    watch, reported = CallWatch(SECONDS), list[str]()
    calls = ExitStack()

    def fail() -> None:
        raise ValueError("nobody foresaw")

    calls.enter_context(watch.call("first", fail))
    calls.enter_context(watch.call("second", lambda: reported.append("second")))
    watch.report_overdue(compute_late_moment())
    assert reported == ["second"]
    with pytest.raises(SourceUnavailable):
        calls.close()


def test_a_call_that_ends_while_another_is_reported_is_not_reported_any_more() -> None:
    watch, reported = CallWatch(SECONDS), list[str]()
    first, second = ExitStack(), ExitStack()

    def report_first() -> None:
        reported.append("first")
        # The watch has seen by now that both are late: here the second one ends, without failing.
        second.close()

    first.enter_context(watch.call("first", report_first))
    second.enter_context(watch.call("second", lambda: reported.append("second")))
    watch.report_overdue(compute_late_moment())
    assert reported == ["first"]
    with pytest.raises(SourceUnavailable, match="first"):
        first.close()


def test_a_call_ends_only_when_its_report_is_complete() -> None:
    watch, order = CallWatch(SECONDS), list[str]()
    begun, ending = threading.Event(), threading.Event()

    def report() -> None:
        begun.set()
        assert ending.wait(SECONDS)
        # Time enough for the call to end, if nothing held it.
        time.sleep(0.1)
        order.append("reported")

    def call() -> None:
        with suppress(SourceUnavailable), watch.call("db.a", report):
            assert begun.wait(SECONDS)
            ending.set()
        order.append("ended")

    caller = threading.Thread(target=call)
    caller.start()
    while not begun.is_set():
        watch.report_overdue(compute_late_moment())
    caller.join(SECONDS)
    assert order == ["reported", "ended"]


def test_a_call_that_raises_keeps_its_own_error_where_it_was_not_reported() -> None:
    watch = CallWatch(SECONDS)
    with pytest.raises(KeyError), watch.call("db.a", lambda: None):
        raise KeyError("a")
