"""A harmless request for each permission of docs/opensearch-role.json, to see if it is refused.

The security plugin has no question for one's own permissions in 2.19, so the request itself is
sent, in a form that changes nothing when it is allowed: about an index of a random name that does
not exist, with a value that OpenSearch refuses, or with a condition that never holds.

    indices:admin/delete         DELETE /orders-icdc-doctor-5f1c             404
    indices:admin/create         PUT … {"number_of_shards": 0}               400
    indices:data/write/index     PUT …/_doc/x?require_alias=true             404
    indices:data/write/bulk[s]   none: only a request to a real shard needs it

Pure: says what to send.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from icdc_api import naming
from icdc_cli.doctor.host.target_checks import Right


@dataclass(frozen=True)
class RightProbe:
    """One request, and the permission without which it is refused."""

    right: Right
    """The permission."""
    method: str = ""
    """Of HTTP; empty where there is no harmless request."""
    path: str = ""
    """With the query."""
    body: Any = None
    """What is sent as JSON; text as it is."""


_NEVER = {"index": {"number_of_shards": 0}}
"""Settings that OpenSearch refuses for any index."""
_BULK = '{{"index":{{"_index":"{index}","_id":"x","require_alias":true}}}}\n{{}}\n'

_CLUSTER: tuple[tuple[str, str, str, Any], ...] = (
    ("cluster:monitor/health", "GET", "/_cluster/health?timeout=1s", None),
    ("cluster:monitor/nodes/info", "GET", "/_nodes/_local?filter_path=nodes.*.name", None),
    # No task has such an action, so the answer is small however busy the cluster is.
    ("cluster:monitor/tasks/lists", "GET", "/_tasks?actions=icdc-doctor", None),
    ("indices:data/read/scroll", "POST", "/_search/scroll", {"scroll_id": "none"}),
    ("indices:data/read/scroll/clear", "DELETE", "/_search/scroll", {"scroll_id": ["none"]}),
)
# {index}: a name that does not exist, or icdc-state. Each leaves even an index of that name alone.
_COMMON: tuple[tuple[str, str, str, Any], ...] = (
    ("indices:admin/create", "PUT", "/{index}", {"settings": _NEVER}),
    ("indices:admin/get", "GET", "/{index}", None),
    ("indices:data/read/get", "GET", "/{index}/_doc/x", None),
    (
        "indices:data/write/delete",
        "DELETE",
        # A primary term counts the failovers of a shard, and none has had so many.
        "/{index}/_doc/x?if_seq_no=0&if_primary_term=999999",
        None,
    ),
    ("indices:data/write/index", "PUT", "/{index}/_doc/x?require_alias=true", {}),
    ("indices:monitor/settings/get", "GET", "/{index}/_settings", None),
    ("indices:monitor/stats", "GET", "/{index}/_stats/docs", None),
    ("indices:data/write/bulk[s]", "", "", None),
)
_OF_TABLES: tuple[tuple[str, str, str, Any], ...] = (
    (
        "indices:admin/aliases",
        "POST",
        "/_aliases",
        {"actions": [{"remove": {"index": "{index}", "alias": "{index}"}}]},
    ),
    ("indices:admin/aliases/get", "GET", "/{index}/_alias", None),
    ("indices:admin/delete", "DELETE", "/{index}", None),
    ("indices:admin/mapping/put", "PUT", "/{index}/_mapping", {"properties": {}}),
    ("indices:admin/mappings/get", "GET", "/{index}/_mapping", None),
    ("indices:admin/refresh", "POST", "/{index}/_refresh", None),
    ("indices:admin/refresh[s]", "", "", None),
    ("indices:admin/settings/update", "PUT", "/{index}/_settings", _NEVER),
    (
        "indices:data/read/point_in_time/create",
        "POST",
        "/{index}/_search/point_in_time?keep_alive=1s",
        None,
    ),
    ("indices:data/read/point_in_time/delete", "", "", None),
    ("indices:data/read/search", "POST", "/{index}/_search", {"size": 0}),
    (
        "indices:data/write/delete/byquery",
        "POST",
        "/{index}/_delete_by_query",
        {"query": {"match_none": {}}},
    ),
)


def list_probes(indices: Sequence[str], suffix: str) -> Iterator[RightProbe]:
    """Yield the requests for a pipeline with these indices; no index may end with `suffix`."""
    for action, method, path, body in _CLUSTER:
        yield RightProbe(Right(action), method, path, body)
    unused = f"{indices[0]}-icdc-doctor-{suffix}"
    yield RightProbe(Right("indices:data/write/bulk"), "POST", "/_bulk", _BULK.format(index=unused))
    for entry in _COMMON:
        yield _build(entry, naming.STATE_INDEX, naming.STATE_INDEX)
    for index in indices:
        # The physical indices of the alias, dead letters included, are all named like this.
        name = f"{index}-icdc-doctor-{suffix}"
        for entry in (*_COMMON, *_OF_TABLES):
            yield _build(entry, f"{index}-*", name)


def _build(entry: tuple[str, str, str, Any], pattern: str, index: str) -> RightProbe:
    action, method, path, body = entry
    return RightProbe(Right(action, pattern), method, path.format(index=index), _fill(body, index))


def _fill(body: Any, index: str) -> Any:
    """Return `body` with the name of the index."""
    if isinstance(body, dict):
        return {key: _fill(value, index) for key, value in body.items()}
    if isinstance(body, list):
        return [_fill(value, index) for value in body]
    return index if body == "{index}" else body
