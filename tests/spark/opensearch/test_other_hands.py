"""An index that somebody changed after it was made: rows are not refused for it, nor removed."""

from typing import Any

import pytest

from icdc_spark.opensearch.client.connection import Client
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import RewrittenAnswer
from icdc_testing.target import sink_cases as sink
from icdc_testing.target.node_calls import call, read_documents

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("index")]

DEAD_LETTERS = "orders-dead-letters"


def fill(url: str) -> dict[str, tuple[int, object]]:
    sink.write(url, [sink.upsert(f"k{n}", {"v": n}) for n in range(20)])
    return read_documents(url, sink.INDEX)


def test_a_default_pipeline_that_came_later_changes_nothing(
    clean_indices: str, admin: Client
) -> None:
    """Not even when there is no pipeline of that name, which would refuse every row."""
    fill(clean_indices)
    setting = {"index.default_pipeline": "gone"}
    assert call(clean_indices, "PUT", f"/{sink.INDEX}/_settings", setting).status == 200
    result = sink.write(clean_indices, [sink.upsert("k1", {"v": -1}, 2, expect="u")], 2)
    assert (result.error, result.upserted) == (None, 1)


def test_a_pipeline_that_is_missing_stops_the_batch_and_removes_nothing(
    clean_indices: str, admin: Client
) -> None:
    before = fill(clean_indices)
    setting = {"index.final_pipeline": "gone"}
    assert call(clean_indices, "PUT", f"/{sink.INDEX}/_settings", setting).status == 200
    lines = [sink.upsert(f"k{n}", {"v": -n}, 2, expect="u") for n in range(20)]
    result = sink.write(clean_indices, lines, 2)
    assert result.error is not None
    kind, message = result.error
    assert (kind, result.dead_letters) == ("TargetInvalid", 0)
    assert "pipeline with id [gone] does not exist" in message
    assert "Nothing was removed" in message
    assert read_documents(clean_indices, sink.INDEX) == before
    assert not admin.indices.exists(index=DEAD_LETTERS)


def test_a_field_that_is_not_in_the_mapping_is_not_the_rows_fault(clean_indices: str) -> None:
    before = fill(clean_indices)
    lines = [sink.upsert("k1", {"v": 1, "added": 1}, 2, expect="u")]
    result = sink.write(clean_indices, lines, 2)
    assert result.error is not None
    assert (result.error[0], result.dead_letters) == ("TargetInvalid", 0)
    assert "dynamic introduction of [added]" in result.error[1]
    assert read_documents(clean_indices, sink.INDEX) == before


def rewrite_item(position: int, **change: Any) -> RewrittenAnswer:
    """Return the answer of one item, the guard left out, with other fields."""

    def report_errors(answer: dict[str, Any]) -> object:
        (item,) = answer["items"][position + 1].values()
        item.clear()
        item.update(change)
        return answer | {"errors": True}

    return RewrittenAnswer(report_errors)


def make_error(kind: str, reason: str = "") -> dict[str, str]:
    return {"type": kind, "reason": reason}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"status": 200, "result": "noop"}, id="a document that a pipeline dropped"),
        pytest.param(
            {"status": 400, "error": make_error("routing_missing_exception")}, id="routing required"
        ),
        pytest.param(
            {
                "status": 400,
                "error": make_error(
                    "illegal_argument_exception",
                    "Limit of total fields [1000] has been exceeded",
                ),
            },
            id="too many fields",
        ),
        pytest.param(
            {"status": 404, "error": make_error("resource_not_found_exception")}, id="a 404"
        ),
    ],
)
@pytest.mark.parametrize("position", [0, 1])
def test_an_answer_that_no_row_can_cause_stops_the_batch(
    proxy: FaultProxy, change: dict[str, Any], position: int
) -> None:
    before = fill(proxy.upstream)
    proxy.add(rewrite_item(position, **change), path="_bulk")
    lines = [sink.upsert("k1", {"v": -1}, 2, expect="u"), sink.delete("k2", 2)]
    result = sink.write(proxy.url, lines, 2)
    assert result.error is not None
    assert (result.error[0], result.dead_letters) == ("TargetInvalid", 0)
    # What was answered so was written here by the node, so the other documents are compared.
    untouched = read_documents(proxy.upstream, sink.INDEX)
    assert {k: v for k, v in before.items() if k not in ("k1", "k2")} == {
        k: v for k, v in untouched.items() if k not in ("k1", "k2")
    }


def test_a_shard_that_moves_is_written_a_moment_later(proxy: FaultProxy) -> None:
    fill(proxy.upstream)
    moved = {"status": 404, "error": make_error("shard_not_found_exception")}
    proxy.add(rewrite_item(1, **moved), path="_bulk")
    lines = [sink.upsert("k1", {"v": -1}, 2, expect="u"), sink.delete("k2", 2)]
    result = sink.write(proxy.url, lines, 2)
    assert (result.error, result.retries, result.dead_letters) == (None, 1, 0)
    assert "k2" not in read_documents(proxy.upstream, sink.INDEX)
