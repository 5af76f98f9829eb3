"""Messages about blocks, limits and aliases name these, and nothing else of a reason."""

import re

import pytest

from icdc_api.errors import TargetUnavailable
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.client.shards import require_all_shards
from icdc_spark.opensearch.client.target_errors import from_status

HERE = Connection(hosts=("http://search:9200",))
BLOCK = "cluster_block_exception"


@pytest.mark.parametrize(
    ("kind", "reason", "said"),
    [
        (BLOCK, "index [icdc-state] blocked by: [FORBIDDEN/8/index write (api)];",
         "refuses writes to index 'icdc-state' (cluster_block_exception: index write (api)): "),
        (BLOCK, "blocked by: [FORBIDDEN/6/cluster read-only (api)];",
         "refuses writes (cluster_block_exception: cluster read-only (api)): remove the block"),
        (BLOCK, "index [a] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage "
         "watermark, index has read-only-allow-delete block];", "flood-stage watermark, index has"),
        (BLOCK, "", "refuses writes (cluster_block_exception): remove the block"),
        (BLOCK, "blocked by: [quotes a row]", "refuses writes (cluster_block_exception): remove"),
        ("validation_exception", "Validation Failed: 1: this action would add [2] total shards, "
         "but this cluster currently has [999]/[1000] maximum shards open;",
         "takes no more shards (this action would add [2] total shards, but this cluster "
         "currently has [999]/[1000] maximum shards open): delete indices, add nodes, or raise "
         "cluster.max_shards_per_node; then the table goes on by itself."),
    ],
)  # fmt: skip
def test_what_refuses_writes_is_named(kind: str, reason: str, said: str) -> None:
    error = from_status(403, kind, HERE, reason=reason)
    assert type(error).__name__ == "TargetReadOnly"
    assert said in error.message
    assert "quotes a row" not in error.message


@pytest.mark.parametrize(
    ("status", "reason", "said"),
    [
        (400, "Result window is too large [5000] secret. This limit can be set by changing the "
         "[index.max_result_window] index level setting.",
         "refuses a request, as its setting index.max_result_window is too low: put its default"),
        (400, "The number of terms [70000] secret. This maximum can be set by changing the "
         "[index.max_terms_count] index level setting.", "index.max_terms_count is too low"),
        (500, "alias [orders-write] has more than one write index [orders-1,orders-2]",
         "refuses a request, as alias 'orders-write' would have two write indices: take"),
    ],
)  # fmt: skip
def test_what_refuses_any_such_request_is_named(status: int, reason: str, said: str) -> None:
    error = from_status(status, "illegal_argument_exception", HERE, reason=reason)
    assert type(error).__name__ == "TargetInvalid"
    assert said in error.message
    assert "secret" not in error.message


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"timed_out": True, "_shards": {"total": 3, "successful": 3, "failed": 0}},
         "ended the count before it was complete (timed_out): raise search.default_search_timeout"),
        ({"timed_out": False, "_shards": {"total": 3, "successful": 2, "failed": 0}},
         "answered the count from 2 of 3 shards; the request is repeated"),
    ],
)  # fmt: skip
def test_why_an_answer_is_not_complete_is_told(answer: dict[str, object], said: str) -> None:
    with pytest.raises(TargetUnavailable, match=re.escape(said)):
        require_all_shards(answer, "count")
