"""A few calls on an OpenSearch node for tests, independent of the client under test."""

import base64
import http.client
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from icdc_testing.waiting import wait

_TIMEOUT_SECONDS = 60.0
_PAGE = 10_000
_BLOCKS = ("index.blocks.metadata", "index.blocks.read_only")
"""Settings that keep an index from being deleted."""
_PASSING = (429, 503)
"""Answers of a node that is short of memory, or has no copy of a shard just now."""
_AT_ONCE = 20
"""Names of indices that fit into the first line of a request, which OpenSearch limits to 4 kB."""


@dataclass(frozen=True)
class NodeAnswer:
    """Status and body of an answer; `json` is empty where the body is not JSON."""

    status: int
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        """The body as an object."""
        try:
            value = json.loads(self.body)
        except json.JSONDecodeError:
            return {}
        return value if isinstance(value, dict) else {"list": value}


def call(
    url: str,
    method: str,
    path: str,
    body: object = None,
    *,
    headers: dict[str, str] | None = None,
    credentials: tuple[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    timeout: float = _TIMEOUT_SECONDS,
) -> NodeAnswer:
    """Send one request on a connection of its own; bytes as NDJSON, anything else as JSON."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection = (
        http.client.HTTPSConnection(host, port, timeout=timeout, context=tls)
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=timeout)
    )
    sent = {"content-type": "application/json", **(headers or {})}
    if isinstance(body, bytes):
        sent["content-type"] = "application/x-ndjson"
    elif body is not None:
        body = json.dumps(body).encode()
    if credentials is not None:
        token = base64.b64encode(":".join(credentials).encode()).decode()
        sent["authorization"] = f"Basic {token}"
    try:
        connection.request(method, path, body=body, headers=sent)
        answer = connection.getresponse()
        return NodeAnswer(answer.status, answer.read())
    finally:
        connection.close()


def read_documents(url: str, index: str) -> dict[str, tuple[int, object]]:
    """Return every document of an index that fits into memory: id -> (version, source).

    A node that is short of memory or has no copy of a shard yet is asked again from the start:
    part of a scroll says nothing about the rest. Any other refusal is an AssertionError.
    """
    documents: dict[str, tuple[int, object]] = {}
    refusals: list[bytes] = []

    def is_read() -> bool:
        documents.clear()
        return all(_add_page(answer, documents, refusals) for answer in _scroll_pages(url, index))

    try:
        wait.wait_until(is_read, f"the documents of {index}")
    except AssertionError as error:
        raise AssertionError(f"{error}; last answer: {refusals[-1:]}") from error
    return documents


def _add_page(
    answer: NodeAnswer, documents: dict[str, tuple[int, object]], refusals: list[bytes]
) -> bool:
    """Add the documents of a page; False, and its body with the refusals, where it is not whole."""
    assert answer.status in (200, *_PASSING), (answer.status, answer.body)
    page = json.loads(answer.body)
    if answer.status != 200 or page["timed_out"] or page["_shards"]["failed"]:
        refusals.append(answer.body[:1000])
        return False
    documents |= {hit["_id"]: (hit["_version"], hit["_source"]) for hit in page["hits"]["hits"]}
    return True


def _scroll_pages(url: str, index: str) -> Iterator[NodeAnswer]:
    """Scroll through an index; the last answer has less than a page, or none."""
    call(url, "POST", f"/{index}/_refresh")
    query = {"size": _PAGE, "version": True, "query": {"match_all": {}}}
    answer = call(url, "POST", f"/{index}/_search?scroll=1m", query)
    scrolls: set[str] = set()
    try:
        while True:
            yield answer
            page = json.loads(answer.body)
            scrolls.add(page["_scroll_id"])
            if len(page["hits"]["hits"]) < _PAGE:
                return
            more = {"scroll_id": page["_scroll_id"], "scroll": "1m"}
            answer = call(url, "POST", "/_search/scroll", more)
    finally:
        if scrolls:
            call(url, "DELETE", "/_search/scroll", {"scroll_id": sorted(scrolls)})


def clean_indices(url: str) -> None:
    """Remove every index, alias and document, hidden ones and blocked ones too."""
    # The state of the cluster is shown whatever blocks an index has; a list of indices is not.
    path = "/_cluster/state/metadata?filter_path=metadata.indices.*.state"
    state = json.loads(call(url, "GET", path).body)
    names = sorted(state.get("metadata", {}).get("indices", {}))
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        # Refused as a whole where one of them is blocked.
        if call(url, "DELETE", f"/{','.join(some)}").status != 200:
            for index in some:
                _delete_index(url, index)


def _delete_index(url: str, index: str) -> None:
    answer = call(url, "DELETE", f"/{index}")
    if answer.status == 403:
        # One in a request, or it is refused for the block that it would remove.
        for block in _BLOCKS:
            call(url, "PUT", f"/{index}/_settings", {block: None})
        answer = call(url, "DELETE", f"/{index}")
    assert answer.status == 200, answer.body
