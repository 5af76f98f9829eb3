"""Reads a whole index in slices, for verify: as it is at one instant, in bounded memory.

`read_documents` reads a few documents of it instead, by their ids.

One point in time is shared by all slices, each of which may be read by a task of its own. It must
not know what documents should hold.

Example, an index of 3 shards read by 2 tasks: task A reads slices 0 and 2, task B slice 1. They ask
for pages in the order of the shard (`_doc`), every page after the position of the last document of
the page before. A slice is a whole shard, unless that has more than 10,000,000 documents: to filter
those of a part of a shard may cost OpenSearch three times as much.

A document's text is cut out of the answer, because parsing it would change the digits of numbers,
and would cost more than all else that is done with it. What ends it in the answer is a random word
of the request, which no document can hold: OpenSearch puts the name of a query behind each hit.

    {"_index":"orders-000001","_id":"7","_version":131072,"_score":null,
     "_source":{"name":"a"},"sort":[12],"matched_queries":["6f1c…"]}
"""

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from icdc_api.errors import PassingError, TargetUnavailable
from icdc_spark.opensearch.client.connection import (
    NO_SEARCH_PIPELINE,
    PRIMARIES,
    Client,
    Connection,
    open_client,
)
from icdc_spark.opensearch.client.error_answers import CONTEXT_MISSING, parse_error_type
from icdc_spark.opensearch.client.foreign_answers import EVERY_STATUS
from icdc_spark.opensearch.client.retry import retry_passing
from icdc_spark.opensearch.client.shards import require_all_shards
from icdc_spark.opensearch.client.target_errors import (
    from_status,
    repeat_passing,
    translate_errors,
)

KEEP_ALIVE = "10m"
"""Prolonged by every page, so it bounds the pause between two pages."""
PAGE_DOCUMENTS = 500
"""Documents of one answer, which is held in memory as a whole; fewer where the index says so."""
PAGE_BYTES = 8 * 1024 * 1024
"""About the size of one answer: where a page has larger documents, the next one has fewer."""
SLICE_DOCUMENTS = 10_000_000
"""Documents of a slice, about, where a shard has more: minutes of one task."""
MAX_SLICES = 1024
"""The most that OpenSearch allows by default, which is also its limit of shards."""
_FIRST_PAGE = 50
"""Documents of the first page, which shows how large they are; the next have twice as many."""
_PARAMS = {
    "allow_partial_search_results": "false",
    "search_pipeline": NO_SEARCH_PIPELINE,
}
_HITS = '"hits":['
_SOURCE = '"_source":'
_SORT = ',"sort":['


@dataclass(frozen=True)
class Scan:
    """An open scan; plain data, so that it travels to tasks."""

    connection: Connection
    """The OpenSearch to read from."""
    point_in_time: str
    """The id of the point in time."""
    slices: int
    """The number of slices, read as 0 to `slices` - 1."""
    shards: int
    """The shards of the index, all of which have to answer each page."""
    page: int = PAGE_DOCUMENTS
    """Documents of one answer at most."""
    left_out: tuple[str, ...] = ()
    """Paths of fields that documents are read without."""


class ScannedDocument(NamedTuple):
    """One document of the index."""

    id: str
    """Its `_id`."""
    routing: str
    """Its routing; empty where the `_id` decides on the shard."""
    version: int
    """Its external version."""
    text: str
    """Its `_source` exactly as stored."""


@repeat_passing
def open_scan(client: Client, index: str, documents: int, left_out: Iterable[str] = ()) -> Scan:
    """Open a scan of all documents that are visible now (refresh first), of which there are about
    `documents`.

    There are at least as many slices as shards: each slice then lies within one shard, where the
    order of documents is total and paging by it misses none.
    """
    # Asked of the index, because an answer about a part of the shards does not say what is missing.
    shards, page = read_limits(client, index)
    opened = client.create_pit(
        index=index,
        # By default a shard that is missing just now is left out of the point in time for good.
        params={"keep_alive": KEEP_ALIVE, "allow_partial_pit_creation": "false"},
    )
    require_all_shards(opened, f"point in time of index {index!r}", shards=shards)
    slices = max(shards, min(MAX_SLICES, -(-documents // SLICE_DOCUMENTS)))
    return Scan(client.connection, opened["pit_id"], slices, shards, page, list_names(left_out))


@repeat_passing
def read_limits(client: Client, index: str) -> tuple[int, int]:
    """Return the number of shards of an index, and the documents that one answer may have."""
    names = ("index.number_of_shards", "index.max_result_window")
    settings = client.indices.get_settings(index=index, name=",".join(names))
    stored = settings[index]["settings"]["index"]
    page = min(PAGE_DOCUMENTS, int(stored.get("max_result_window", PAGE_DOCUMENTS)))
    return int(stored["number_of_shards"]), page


def list_names(left_out: Iterable[str]) -> tuple[str, ...]:
    """Return the fields that can be left out by name, in order."""
    # A name with an asterisk would be a pattern; what it stands for is read.
    return tuple(sorted(name for name in left_out if "*" not in name))


def close_scan(client: Client, scan: Scan) -> None:
    """Free the point in time in OpenSearch, or leave it to expire where that fails for a while.

    Whoever has read all must not lose it.
    """
    with suppress(PassingError):
        _delete_point(client, scan.point_in_time)


@repeat_passing
def _delete_point(client: Client, point_in_time: str) -> None:
    client.delete_pit(body={"pit_id": [point_in_time]}, params={"ignore": 404})


def read_slice(scan: Scan, number: int) -> Iterator[ScannedDocument]:
    """Yield the documents of one slice, in no particular order; holds one page at a time.

    Raises TargetUnavailable where a page is not from all shards, also when it is asked for again,
    and at once where the point in time is gone: it is not found again.
    """
    speaker = open_client(scan.connection, pool=1)
    query = _build_query({"match_all": {}}, min(_FIRST_PAGE, scan.page), scan.left_out)
    query["pit"] = {"id": scan.point_in_time, "keep_alive": KEEP_ALIVE}
    # OpenSearch refuses a single slice.
    if scan.slices > 1:
        query["slice"] = {"id": number, "max": scan.slices}

    def ask() -> list[str]:
        return retry_passing(
            lambda: _ask_for_page(speaker, query, scan.shards), unless=_is_of_lost_point
        )

    try:
        # An empty page is the end; a short one need not be.
        while hits := ask():
            query["search_after"] = [_parse_position(hits[-1])]
            fitting = PAGE_BYTES // max(map(len, hits))
            query["size"] = max(1, min(scan.page, 2 * query["size"], fitting))
            yield from map(_parse_hit, hits)
    finally:
        speaker.close()


@dataclass(frozen=True)
class NamedIndex:
    """An index whose documents are read by their ids; plain data, so that it travels to tasks."""

    connection: Connection
    """The OpenSearch to read from."""
    name: str
    """The name of the index."""
    shards: int
    """Its shards, all of which have to answer."""
    page: int = PAGE_DOCUMENTS
    """Documents of one answer."""
    left_out: tuple[str, ...] = ()
    """Paths of fields that documents are read without."""


def read_documents(index: NamedIndex, ids: Sequence[str]) -> Iterator[ScannedDocument]:
    """Yield the documents of `ids`, as of the last refresh, whatever shard they lie on.

    At most `index.page` of them, in one request: an id may have a document on each shard.
    """
    query = _build_query({"ids": {"values": list(ids)}}, index.page, index.left_out)
    path, params = f"/{quote(index.name, safe='')}/_search", _PARAMS | {"preference": PRIMARIES}
    speaker = open_client(index.connection, pool=1)
    try:
        hits = retry_passing(lambda: _search(speaker, path, params, query, index.shards))
    finally:
        speaker.close()
    yield from map(_parse_hit, hits)


def _ask_for_page(speaker: Client, query: dict[str, Any], shards: int) -> list[str]:
    """Return the hits of a page; after a failure the next attempt asks for half of it."""
    try:
        return _search(speaker, "/_search", _PARAMS, query, shards)
    except PassingError:
        # It may have been too large for the memory of the node.
        query["size"] = max(1, query["size"] // 2)
        raise


def _is_of_lost_point(error: PassingError) -> bool:
    return CONTEXT_MISSING in error.message


def _build_query(
    condition: dict[str, dict[str, Any]], size: int, left_out: tuple[str, ...]
) -> dict[str, Any]:
    """Return a search for the documents of one condition, with what searches have in common."""
    ((kind, wanted),) = condition.items()
    query: dict[str, Any] = {
        "query": {kind: {**wanted, "_name": secrets.token_hex(16)}},
        "size": size,
        # The order in the segment: nothing is sorted, and a point in time never changes it.
        "sort": ["_doc"],
        "version": True,
        # Counting all hits of each page would read the whole slice every time.
        "track_total_hits": False,
    }
    if left_out:
        query["_source"] = {"excludes": list(left_out)}
    return query


def _search(
    speaker: Client, path: str, params: dict[str, str], query: dict[str, Any], shards: int
) -> list[str]:
    """Return the hits, as texts without what ends them; TargetUnavailable unless all are there."""
    # Below the transport, which would parse the answer and so lose the text of numbers.
    node = speaker.transport.get_connection()
    with translate_errors(speaker.connection):
        status, _, text = node.perform_request(
            "POST",
            path,
            params=params,
            body=json.dumps(query).encode(),
            ignore=EVERY_STATUS,
        )
    if status != 200:
        raise from_status(status, parse_error_type(text), speaker.connection, reason=text)
    ((_, named),) = query["query"].items()
    hits, rest = _split_hits(text, named["_name"])
    require_all_shards(rest, "page of documents", shards=shards)
    if rest.get("hits", {}).get("hits") != []:
        raise TargetUnavailable("A page of documents came back cut short, or written anew.")
    return hits


def _split_hits(text: str, word: str) -> tuple[list[str], Any]:
    """Return the hits of an answer, and what else is in it, parsed: `pit_id`, `_shards`, …

    `word` is the name of the query. What was cut short or written anew is in the rest, or makes it
    None.
    """
    *hits, end = text.split(f'],"matched_queries":["{word}"]}}')
    if hits:
        # Before the hits, no other list has that name; and quotes inside of texts are escaped.
        start, key, hits[0] = hits[0].partition(_HITS)
        end = start + key + end
    try:
        return hits, json.loads(end)
    except ValueError:
        return hits, None


def _parse_position(hit: str) -> int:
    """Return the position of a hit in its slice."""
    return int(hit[hit.rindex(_SORT) + len(_SORT) :])


def _parse_hit(hit: str) -> ScannedDocument:
    # The quotes of a text inside JSON are escaped, so no pattern can match within one.
    source_at = hit.index(_SOURCE)
    head = json.loads(hit[hit.index("{") : source_at].rstrip(", ") + "}")
    # A document may have a field of that name: the last one is OpenSearch's.
    body = hit[source_at + len(_SOURCE) : hit.rindex(_SORT)]
    return ScannedDocument(head["_id"], head.get("_routing", ""), head["_version"], body)
