"""Tasks of an executor together send no more than its share, all executors than the limit."""

import math
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from icdc_api.errors import Gap, IcdcError, TargetUnavailable
from icdc_api.spec.sink import SinkLimits
from icdc_spark.opensearch.bulk.sender import Sender
from icdc_spark.opensearch.client.pace import Pace, SendRate, build_rate, share_out
from icdc_spark.opensearch.client.retry import RetryDelay
from icdc_spark.opensearch.wire.operations import CREATE, build_index_entry, build_operations
from icdc_testing.target import sink_cases
from icdc_testing.waiting.manual_clock import ManualClock

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("documents_per_second", "bytes_per_second", "rate"),
    [
        (None, None, None),
        (0, 0, None),
        (100, None, SendRate(100.0)),
        (0, 5_000, SendRate(math.inf, 5_000.0)),
        (100, 5_000, SendRate(100.0, 5_000.0)),
    ],
)
def test_zero_and_absent_limit_nothing(
    documents_per_second: int | None, bytes_per_second: int | None, rate: SendRate | None
) -> None:
    limits = SinkLimits(
        documents_per_second=documents_per_second, bytes_per_second=bytes_per_second
    )
    assert build_rate(limits) == rate
    assert build_rate(None) is None


@pytest.mark.parametrize("executors", [1, 2, 64])
def test_all_shares_together_are_the_limit(executors: int) -> None:
    executor, driver = share_out(SendRate(1_000.0, 1e6), executors)
    assert executors * executor.documents + driver.documents == pytest.approx(1_000)
    assert executors * executor.bytes + driver.bytes == pytest.approx(1e6)
    # Obeyed within 5 %: what the driver does not use is no more.
    assert executors * executor.documents >= 950


# At which second, documents, bytes; the second at which it may be sent.
RESERVATIONS: dict[str, list[tuple[float, int, int, float]]] = {
    "by turns": [(10.0, 50, 1, 10.0), (10.1, 50, 1, 10.5), (10.2, 50, 1, 11.0)],
    "what was not used makes no burst": [
        (10.0, 50, 1, 10.0),
        (99.0, 50, 1, 99.0),
        (99.0, 50, 1, 99.5),
    ],
    "bytes count where they take longer": [
        (0.0, 1, 2_000, 0.0),
        (0.0, 100, 1, 2.0),
        (0.0, 1, 1, 3.0),
    ],
    "more than a second's worth takes longer": [(0.0, 500, 1, 0.0), (1.0, 1, 1, 5.0)],
}


@pytest.mark.parametrize("name", RESERVATIONS)
def test_each_request_is_sent_when_the_time_of_those_before_has_passed(
    name: str, tmp_path: Path
) -> None:
    clock = ManualClock()
    for second, documents, size, sent_at in RESERVATIONS[name]:
        clock.seconds = second
        # A value of its own for each, as in processes that share the file alone.
        pace = Pace(SendRate(100.0, 1_000.0), str(tmp_path))
        assert second + pace.reserve(documents, size, clock=clock) == pytest.approx(sent_at)


def test_tasks_share_the_folder_of_their_executor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/other")
    clock = ManualClock(5.0)
    assert Pace(SendRate(10.0)).reserve(10, 1, clock=clock) == 0
    assert Pace(SendRate(10.0), str(tmp_path)).reserve(10, 1, clock=clock) == 1


@pytest.mark.parametrize(
    ("rate", "documents", "size"),
    [
        (SendRate(), 50_000, 8_000_000),
        (SendRate(250.7), 250, 8_000_000),
        (SendRate(0.1), 1, 8_000_000),
        (SendRate(1e9, 1_000.0), 50_000, 1_000),
        (SendRate(bytes=0.5), 50_000, 1),
    ],
)
def test_a_request_is_of_one_second_at_most_and_of_one_document_at_least(
    rate: SendRate, documents: int, size: int
) -> None:
    assert Pace(rate).limit_request(50_000, 8_000_000) == (documents, size)
    target = sink_cases.make_target("http://nowhere:9200", max_bytes=8_000_000)
    assert replace(target, pace=Pace(rate)).request_limits == (documents, size)
    assert target.request_limits == (50_000, 8_000_000)


def build_request(tmp_path: Path) -> tuple[Sender, list[IcdcError]]:
    """Return a sender whose next request has its turn in 1,000 seconds, and where errors go."""
    pace = Pace(SendRate(1.0), str(tmp_path))
    pace.reserve(1_000, 1)
    return Sender(sink_cases.make_target("http://127.0.0.1:9", pace=pace)), []


@pytest.mark.parametrize("first", [None, Gap("the index disappeared")])
def test_a_wait_counts_as_progress_and_ends_with_the_task(
    first: IcdcError | None, tmp_path: Path
) -> None:
    sender, errors = build_request(tmp_path)
    request = build_operations([build_index_entry("a", 1, b"{}")], CREATE)

    def wait() -> None:
        try:
            sender._wait_turn(request)
        except IcdcError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert sender.progressed.wait(20)
    # As another thread of the task does whose request failed.
    sender._error = first
    sender.stop()
    thread.join(20)
    # The first error, which says what is wrong, and not that of a thread that only waited.
    (error,) = errors
    assert error is first if first else isinstance(error, TargetUnavailable)
    sender.close()


def test_a_wait_for_its_turn_uses_up_none_of_the_time_for_retries() -> None:
    delay = RetryDelay(0.5, first=0.2, pause=lambda _: None)
    delay.extend(60.0)
    assert delay.wait()
    assert not delay.wait(at_least=1.0)
    delay.extend(2.0)
    assert delay.wait(at_least=1.0)
