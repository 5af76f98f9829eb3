"""Reading answers and judging items; limits, backoff and results that carry them."""

import json
import time

import pytest

from icdc_api.errors import (
    Bug,
    Fenced,
    Gap,
    IcdcError,
    TargetInvalid,
    TargetReadOnly,
    TargetUnavailable,
    Throttled,
    Unauthorized,
)
from icdc_spark.opensearch.bulk.concurrency import ConcurrencyLimit
from icdc_spark.opensearch.bulk.result import PartitionResult, Samples
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.client.error_answers import parse_error_type
from icdc_spark.opensearch.client.retry import RetryDelay, retry_passing
from icdc_spark.opensearch.client.target_errors import from_status
from icdc_spark.opensearch.wire.item_outcome import (
    ItemAnswer,
    ItemOutcome,
    judge,
    parse_current_version,
)
from icdc_spark.opensearch.wire.responses import UnreadableAnswerError, read

pytestmark = pytest.mark.unit

HERE = Connection(hosts=("http://search:9200",))
ALIAS_REASON = (
    "no such index [i] and [require_alias] request flag is [true] and [i] is not an alias"
)
GUARD = {"status": 404, "error": {"type": "index_not_found_exception", "reason": ALIAS_REASON}}


def build_answer(*items: dict[str, object], guard: dict[str, object] | None = None) -> str:
    all_items = [{"update": guard or GUARD}, *({"index": item} for item in items)]
    return json.dumps({"errors": True, "items": all_items}, separators=(",", ":"))


def build_failure(status: int, kind: str, reason: str = "") -> dict[str, object]:
    return {"status": status, "error": {"type": kind, "reason": reason}}


def test_a_clean_answer_is_its_statuses() -> None:
    got = read(build_answer({"status": 201}, {"status": 200}, {"status": 404}), 3)
    assert (got.statuses.tolist(), got.failed) == ([201, 200, 404], {})


def test_failed_items_keep_their_type_and_reason() -> None:
    got = read(
        build_answer(
            {"status": 201}, build_failure(400, "mapper_parsing_exception", '"status":201')
        ),
        2,
    )
    assert got.statuses.tolist() == [201, 400]
    assert got.failed == {1: ItemAnswer(400, "mapper_parsing_exception", '"status":201')}


def test_more_than_was_asked_for_is_read_as_well() -> None:
    noisy: dict[str, object] = {"_index": "i", "_id": '"error":{"status":500', "status": 201}
    assert read(build_answer(noisy), 1).statuses.tolist() == [201]


@pytest.mark.parametrize(
    "text",
    ["", "<html>", "[]", "{}", '{"items":[]}', '{"items":[1]}', build_answer({"status": 201})],
)
def test_what_does_not_answer_the_request_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableAnswerError):
        read(text, 2)


@pytest.mark.parametrize(
    "guard",
    [
        {"status": 200},
        build_failure(404, "document_missing_exception", "[icdc-guard]: document missing"),
        build_failure(400, "routing_missing_exception", "routing is required for [i]/[icdc-guard]"),
        build_failure(403, "security_exception", "no permissions for [indices:data/write/update]"),
    ],
)
def test_a_guard_that_reached_an_alias_is_a_gap(guard: dict[str, object]) -> None:
    for items in ([{"status": 201}], [build_failure(400, "mapper_parsing_exception")]):
        with pytest.raises(Gap, match="is an alias now"):
            read(build_answer(*items, guard=guard), 1)


@pytest.mark.parametrize(
    ("item", "expect", "expected"),
    [
        (ItemAnswer(201), b"c", ItemOutcome.APPLIED),
        (ItemAnswer(200), b"d", ItemOutcome.APPLIED),
        (ItemAnswer(404), b"d", ItemOutcome.APPLIED),
        (ItemAnswer(400, "mapper_parsing_exception"), b"u", ItemOutcome.REFUSED),
        (ItemAnswer(429, "rejected_execution_exception"), b"u", ItemOutcome.RETRY),
        (ItemAnswer(503, "unavailable_shards_exception"), b"u", ItemOutcome.RETRY),
        (ItemAnswer(500, "exception"), b"u", ItemOutcome.RETRY),
        (ItemAnswer(404, "index_not_found_exception"), b"d", Gap),
        (ItemAnswer(403, "cluster_block_exception"), b"u", TargetReadOnly),
        (ItemAnswer(429, "cluster_block_exception"), b"u", TargetReadOnly),
        (ItemAnswer(400, "index_closed_exception"), b"u", TargetReadOnly),
        (ItemAnswer(503, "cluster_block_exception"), b"u", ItemOutcome.RETRY),
        (ItemAnswer(404, "shard_not_found_exception"), b"d", ItemOutcome.RETRY),
        (ItemAnswer(404, "illegal_index_shard_state_exception"), b"u", ItemOutcome.RETRY),
        (ItemAnswer(403, "security_exception"), b"u", Unauthorized),
        (ItemAnswer(409, "version_conflict_engine_exception", "no version here"), b"u", Bug),
    ],
)
def test_an_item_is_judged(
    item: ItemAnswer, expect: bytes, expected: ItemOutcome | type[IcdcError]
) -> None:
    if isinstance(expected, ItemOutcome):
        assert judge(item, expect=expect, version=5 << 20, connection=HERE) is expected
        return
    with pytest.raises(expected):
        judge(item, expect=expect, version=5 << 20, connection=HERE)


@pytest.mark.parametrize(
    "reason",
    [
        "[a]: version conflict, current version [7] is higher or equal to the one provided [5]",
        "[current version [9]]: version conflict, current version [7] is higher or equal to "
        "the one provided [5]",
        "[a]: version conflict, current version [7] is higher than the one provided [5]",
    ],
)
def test_the_version_of_a_conflict_is_the_servers(reason: str) -> None:
    assert parse_current_version(reason) == 7


@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        (401, "unknown", Unauthorized),
        (403, "security_exception", Unauthorized),
        (403, "cluster_block_exception", TargetReadOnly),
        (429, "cluster_block_exception", TargetReadOnly),
        (400, "index_closed_exception", TargetReadOnly),
        (503, "cluster_block_exception", TargetUnavailable),
        (404, "shard_not_found_exception", TargetUnavailable),
        (429, "circuit_breaking_exception", Throttled),
        (503, "unknown", TargetUnavailable),
        (404, "index_not_found_exception", Gap),
        (413, "unknown", TargetInvalid),
        (405, "unknown", Bug),
        (400, "snapshot_in_progress_exception", TargetUnavailable),
        (400, "task_cancelled_exception", TargetUnavailable),
        (404, "index_shard_closed_exception", TargetUnavailable),
        (404, "search_context_missing_exception", TargetUnavailable),
        (404, "search_phase_execution_exception", TargetUnavailable),
        (400, "search_phase_execution_exception", Bug),
    ],
)
def test_a_status_has_one_error(status: int, kind: str, error: type[IcdcError]) -> None:
    assert type(from_status(status, kind, HERE)) is error


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (
            "no permissions for [indices:data/write/bulk[s]] and User [name=secret]",
            "give their role the permission indices:data/write/bulk[s]",
        ),
        (
            "no permissions for [indices:admin/create, cluster:monitor/health] and User [name=u]",
            "give their role the permission indices:admin/create, cluster:monitor/health",
        ),
        ("no permissions for [secret] and User", "compare their role with"),
        ("secret", "compare their role with"),
        ("<html>secret", "a gateway or filter before OpenSearch says so"),
        ("", "compare their role with"),
    ],
)
def test_a_refusal_names_the_missing_permission_and_nothing_else(reason: str, said: str) -> None:
    error = from_status(403, "security_exception", HERE, reason=reason)
    assert said in error.message
    assert "secret" not in error.message


@pytest.mark.parametrize(
    ("info", "kind"),
    [
        ('{"error":{"type":"x_exception","reason":"quotes a row"},"status":400}', "x_exception"),
        ('{"error":"text"}', "text"),
        ('{"error":"IndexNotFoundException[no such index [a]]"}', "index_not_found_exception"),
        ('{"error":"OpenSearchRejectedExecutionException[x]"}', "rejected_execution_exception"),
        (
            '{"error":{"root_cause":[{"type":"search_context_missing_exception"}],'
            '"type":"search_phase_execution_exception"}}',
            "search_context_missing_exception",
        ),
        (
            '{"error":{"root_cause":[],"type":"search_phase_execution_exception"}}',
            "search_phase_execution_exception",
        ),
        ("", "unknown"),
        ("<html>", "unknown"),
        ("[]", "unknown"),
        (None, "unknown"),
    ],
)
def test_the_type_of_an_error_answer_never_holds_its_reason(info: str | None, kind: str) -> None:
    assert parse_error_type(info) == kind


def test_the_limit_of_requests_is_halved_at_once_and_regrown_slowly() -> None:
    limit = ConcurrencyLimit(8)
    limits = []
    for _ in range(4):
        limit.halve()
        limits.append(limit.limit)
    assert limits == [4, 2, 1, 1]
    for _ in range(100):
        limit.grow()
    assert limit.limit == 8


def test_backoff_ends_before_its_deadline_and_obeys_the_server() -> None:
    pauses: list[float] = []
    delay = RetryDelay(100.0, pause=pauses.append)
    for _ in range(8):
        assert delay.wait()
    assert all(0.1 <= pause <= 20.0 for pause in pauses)
    assert pauses[-1] > pauses[0]
    assert delay.wait(at_least=9.0)
    assert pauses[-1] >= 9.0
    assert not delay.wait(at_least=101.0)


def test_only_passing_errors_are_repeated() -> None:
    calls: list[float] = []

    def fail_twice() -> int:
        calls.append(time.monotonic())
        if len(calls) < 3:
            raise TargetUnavailable("not yet")
        return len(calls)

    def fail() -> int:
        calls.append(0.0)
        raise Fenced("for good")

    assert retry_passing(fail_twice, seconds=10.0) == 3
    with pytest.raises(Fenced):
        retry_passing(fail)
    assert len(calls) == 4
    with pytest.raises(TargetUnavailable):
        retry_passing(lambda: retry_passing(_fail_unavailable, seconds=0.05), seconds=0.05)


def _fail_unavailable() -> int:
    raise TargetUnavailable("down")


def test_results_add_up_and_travel_as_text() -> None:
    first, second = PartitionResult(upserted=2, bytes=10), PartitionResult(deleted=1, bytes=5)
    for number in range(30):
        second.suspects.add(f"k{number}")
    second.ambiguous = True
    second.fail(Throttled("busy"))
    second.fail(Gap("later"))
    first.merge(PartitionResult.from_json(second.to_json()))
    assert (first.upserted, first.deleted, first.bytes, first.ambiguous) == (2, 1, 15, True)
    assert first.suspects == Samples(30, [f"k{number}" for number in range(20)])
    with pytest.raises(Throttled, match="busy"):
        first.raise_error()
    PartitionResult().raise_error()
