"""A target that is slow, or overloaded for long: whatever it applied late, each row is once there.

Times are scaled: a request may take a second and a half here, and a minute in production.
"""

from collections.abc import Callable

import pytest

from icdc_spark.opensearch.bulk.partition_writer import write_batches
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.client.retry import FIRST_SECONDS
from icdc_spark.protocol.state_document import compute_base_version
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Action, Delay, Hang, ItemErrors
from icdc_testing.network.recorded_writes import Write
from icdc_testing.target import sink_cases as sink
from icdc_testing.target.node_calls import read_documents
from icdc_testing.waiting.wait import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("index")]

TIMEOUT = 1.5
ROWS = 200
BEFORE = [sink.upsert(f"k{n}", {"v": n}) for n in range(ROWS)]
# Every tenth row is deleted by the second batch, the others are changed.
LINES = [
    sink.delete(f"k{n}", 2) if n % 10 == 0 else sink.upsert(f"k{n}", {"v": -n}, 2, expect="u")
    for n in range(ROWS)
]
AFTER = {f"k{n}": (compute_base_version(2), {"v": -n}) for n in range(ROWS) if n % 10}


def make_impatient(proxy: FaultProxy) -> Connection:
    return Connection(hosts=(proxy.url,), timeout=TIMEOUT)


def test_answers_that_come_too_late_now_and_then_cost_a_repetition(proxy: FaultProxy) -> None:
    """Some are late within the limit, some beyond it, and some requests are never applied."""
    sink.write(proxy.upstream, BEFORE)
    late: list[Action] = [
        Delay(TIMEOUT / 3),
        Hang(),
        Delay(TIMEOUT / 3, after=True),
        Hang(after=False),
    ]
    rules = [proxy.add(fault, path="_bulk", skip=4 * n) for n, fault in enumerate(late)]
    result = sink.write(proxy.url, LINES, 2, connection=make_impatient(proxy), max_bytes=1_000)
    assert [rule.hits for rule in rules] == [1] * len(late)
    assert (result.error, result.ambiguous) == (None, True)
    assert result.retries >= 2
    # Of the one that was applied without an answer.
    assert result.already_applied > 0
    assert read_documents(proxy.upstream, sink.INDEX) == AFTER


def test_a_target_that_applies_all_and_answers_nothing_is_a_replay_later(proxy: FaultProxy) -> None:
    sink.write(proxy.upstream, BEFORE)
    proxy.add(Hang(), path="_bulk", times=None)
    silent = sink.write(proxy.url, LINES, 2, connection=make_impatient(proxy), retry_seconds=1.5)
    assert silent.error is not None
    assert silent.error[0] == "TargetUnavailable"
    assert "did not answer in time" in silent.error[1]
    assert (silent.ambiguous, silent.upserted, silent.deleted) == (True, 0, 0)
    wait_until(lambda: read_documents(proxy.upstream, sink.INDEX) == AFTER, "all is applied")
    proxy.clear()
    again = sink.write(proxy.url, LINES, 2)
    assert (again.error, again.upserted, again.already_applied) == (None, 0, ROWS)
    assert read_documents(proxy.upstream, sink.INDEX) == AFTER


def test_an_overload_that_lets_a_few_through_is_no_failure_however_long_it_lasts(
    proxy: FaultProxy,
) -> None:
    """The limit is on the time without progress: all pauses together are longer than it."""
    few, seconds = 12, 0.8
    for n in range(few - 1):
        proxy.add(ItemErrors(refuse_all_but(f"k{n}")), path="_bulk")
    result = sink.write(proxy.url, BEFORE[:few], retry_seconds=seconds)
    assert (result.error, result.upserted, result.retries) == (None, few, few - 1)
    # A pause is at least half of the shortest ceiling.
    assert result.retries * FIRST_SECONDS / 2 > seconds


def test_a_task_shows_before_its_end_that_a_slow_target_goes_on(proxy: FaultProxy) -> None:
    few = 6
    for n in range(few - 1):
        proxy.add(ItemErrors(refuse_all_but(f"k{n}")), path="_bulk")
    target = sink.make_target(proxy.url, progress_seconds=FIRST_SECONDS / 2)
    parts = list(write_batches(sink.make_batches(BEFORE[:few]), target))
    # All of it is one request, whose counts are known at its end.
    written = [part.upserted for part in parts]
    assert (written[:2], sum(written)) == ([0, 0], few)


def test_a_task_shows_nothing_while_its_target_does_nothing(proxy: FaultProxy) -> None:
    proxy.add(Hang(after=False), path="_bulk", times=None)
    target = sink.make_target(
        proxy.url, connection=make_impatient(proxy), retry_seconds=1.5, progress_seconds=0.1
    )
    (silent,) = write_batches(sink.make_batches(BEFORE), target)
    assert silent.error is not None


def refuse_all_but(key: str) -> Callable[[Write], bool]:
    return lambda write: write.id.startswith("k") and write.id != key
