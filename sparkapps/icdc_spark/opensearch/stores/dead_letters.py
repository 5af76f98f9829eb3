"""Rows that the index refused: kept in `<alias>-dead-letters`, one document per document id.

Letters carry the version of the batch that refused the row, so that a resolution can only remove
letters of older batches, in whatever order requests arrive. It must not know why rows are refused.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from opensearchpy.exceptions import NotFoundError, RequestError

from icdc_api import naming
from icdc_api.errors import AliasTaken, TargetUnavailable
from icdc_spark.opensearch.client.connection import Client
from icdc_spark.opensearch.client.errors import error_type, repeats
from icdc_spark.opensearch.client.shards import require_all_shards
from icdc_spark.opensearch.stores.creation import make
from icdc_spark.opensearch.stores.indices import Ownership, ownership, with_ownership
from icdc_spark.opensearch.wire.item_outcome import ItemAnswer
from icdc_spark.opensearch.wire.operations import index_entry

MAX_DOCUMENT_BYTES = 1 << 20
"""A larger document is not kept, only its size: it was probably refused for its size."""
MAX_REASON = 1000
_PAGE = 5000

_MAPPING: dict[str, Any] = {
    "dynamic": "strict",
    "properties": {
        "id": {"type": "keyword", "ignore_above": 8191},
        "reason": {"type": "text"},
        "errorType": {"type": "keyword"},
        # Text, not an object: what a mapping refused once must not be refused again.
        "document": {"type": "text", "index": False, "norms": False},
        "documentBytes": {"type": "long"},
        "table": {"type": "keyword"},
        "snapshotId": {"type": "keyword"},
        "ordinal": {"type": "long"},
        "at": {"type": "date"},
    },
}


@dataclass(frozen=True)
class Origin:
    """Where refused rows come from: labels, and what the batch writes with."""

    table: str
    snapshot_id: str
    ordinal: int
    version: int


@dataclass(frozen=True)
class StoredLetter:
    """A dead letter as the index has it."""

    version: int
    """Its document version."""
    ordinal: int
    """The ordinal of the batch that stored it."""


def letter(document_id: str, document: bytes, answer: ItemAnswer, origin: Origin) -> bytes:
    """The bulk entry that stores one refused row."""
    content: dict[str, Any] = {
        "id": document_id,
        "reason": answer.reason[:MAX_REASON],
        "errorType": answer.kind[:100],
        "documentBytes": len(document),
        "table": origin.table,
        "snapshotId": origin.snapshot_id,
        "ordinal": origin.ordinal,
        "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    if len(document) <= MAX_DOCUMENT_BYTES:
        content["document"] = document.decode("utf-8", errors="replace")
    return index_entry(document_id, origin.version, json.dumps(content).encode())


@repeats
def ensure_index(client: Client, owner: Ownership) -> None:
    """Makes the index if it is missing; AliasTaken if one of that name is not ours."""
    name = naming.dead_letters_index(owner.alias)
    body: dict[str, Any] = {
        "settings": {"index.number_of_shards": 1, "index.auto_expand_replicas": "0-1"},
        "mappings": with_ownership(_MAPPING, owner),
    }
    try:
        make(client, name, body)
    except RequestError as error:
        if error_type(error.info) != "resource_already_exists_exception":
            raise
        _check_owner(client, owner, error)


@repeats
def known_ids(client: Client, alias: str) -> frozenset[str]:
    """The ids that have a dead letter now; bounded by the pipeline's deadLetters.maxRows."""
    if not _refresh(client, alias):
        return frozenset()
    found: set[str] = set()
    query: dict[str, Any] = {"size": _PAGE, "_source": ["id"], "sort": ["id"]}
    while True:
        answer = client.search(index=naming.dead_letters_index(alias), body=query)
        require_all_shards(answer, f"search for dead letters of {alias!r}")
        hits = answer["hits"]["hits"]
        found.update(hit["_source"]["id"] for hit in hits)
        if len(hits) < _PAGE:
            return frozenset(found)
        query["search_after"] = hits[-1]["sort"]


@repeats
def read_letters(client: Client, alias: str, ids: Sequence[str]) -> dict[str, StoredLetter | None]:
    """Return the dead letters under `ids` as they are now, refreshed or not; None for no letter."""
    letters: dict[str, StoredLetter | None] = {}
    for start in range(0, len(ids), _PAGE):
        part = list(ids[start : start + _PAGE])
        answer = client.mget(
            index=naming.dead_letters_index(alias),
            body={"ids": part},
            params={"_source_includes": "ordinal"},
        )
        for document in answer["docs"]:
            if "error" in document:
                # Such as a shard that has no copy just now. Taken for "no letter", one would be
                # overwritten that may be a newer run's.
                raise TargetUnavailable(f"Dead letters of {alias!r} could not be read.")
            letters[document["_id"]] = (
                StoredLetter(document["_version"], int(document["_source"]["ordinal"]))
                if document["found"]
                else None
            )
    return letters


@repeats
def newest(
    client: Client, owner: Ownership, *, ids: Sequence[str] | None, size: int, documents: bool
) -> list[dict[str, Any]]:
    """The dead letters of the newest batches, at most `size` of them; of `ids` alone if given.

    Without `documents` nothing in them holds values of rows but their ids. Raises AliasTaken where
    the index of that name is not ours.
    """
    name = naming.dead_letters_index(owner.alias)
    if not _refresh(client, owner.alias):
        return []
    _check_owner(client, owner)
    query = {
        "size": size,
        "query": {"match_all": {}} if ids is None else {"terms": {"id": list(ids)}},
        "sort": [{"ordinal": "desc"}, {"id": "asc"}],
        "_source": True if documents else {"excludes": ["document"]},
    }
    hits = client.search(index=name, body=query)["hits"]["hits"]
    found: list[dict[str, Any]] = [hit["_source"] for hit in hits]
    if not documents:
        for each in found:
            each["reason"] = without_values(each["reason"])
    return found


_NO_VALUES = re.compile(
    r"^(failed to parse field \[[^\]]*\] of type \[[^\]]*\]"
    r"|mapping set to strict, dynamic introduction of \[[^\]]*\] within \[[^\]]*\]"
    r"|Document contains at least one immense term in field=\"[^\"]*\""
    r"|object mapping for \[[^\]]*\] tried to parse field \[[^\]]*\]"
    r"|Limit of (?:total fields|mapping depth) \[[^\]]*\])"
)
"""How reasons begin that name fields before they quote what is in them."""


def without_values(reason: str) -> str:
    """The part of a reason that names no value of a row; empty where there is none."""
    found = _NO_VALUES.match(reason)
    return found[0] if found else ""


@repeats
def count(client: Client, alias: str, *, ordinal: int | None = None) -> int:
    """How many dead letters there are now, of one batch or of all."""
    if not _refresh(client, alias):
        return 0
    query = {"match_all": {}} if ordinal is None else {"term": {"ordinal": ordinal}}
    counted = client.count(index=naming.dead_letters_index(alias), body={"query": query})
    require_all_shards(counted, f"count of dead letters of {alias!r}")
    return int(counted["count"])


@repeats
def last_ordinal(client: Client, alias: str) -> int:
    """Return the greatest ordinal of a batch that a dead letter is from; 0 where there is none."""
    if not _refresh(client, alias):
        return 0
    answer = client.search(
        index=naming.dead_letters_index(alias),
        body={"size": 0, "aggs": {"last": {"max": {"field": "ordinal"}}}},
        params={"allow_partial_search_results": "false"},
    )
    return int(answer["aggregations"]["last"]["value"] or 0)


@repeats
def purge_older(client: Client, alias: str, ordinal: int) -> int:
    """Removes letters of batches before `ordinal`: after an export none of them is true any more.

    Returns how many. Called once the alias has moved.
    """
    if not _refresh(client, alias):
        return 0
    query = {"query": {"range": {"ordinal": {"lt": ordinal}}}}
    answer = client.delete_by_query(
        index=naming.dead_letters_index(alias),
        body=query,
        params={"refresh": "true", "conflicts": "proceed"},
    )
    if answer.get("failures") or answer.get("timed_out"):
        raise TargetUnavailable(f"Dead letters of {alias!r} could not be removed.")
    return int(answer["deleted"])


@repeats
def drop(client: Client, owner: Ownership) -> bool | None:
    """Removes the index; None when there is none, False when it is not ours and stays."""
    name = naming.dead_letters_index(owner.alias)
    try:
        found = client.indices.get_mapping(index=name)
    except NotFoundError:
        return None
    if name not in found or ownership(found[name]["mappings"]) != owner:
        return False
    client.indices.delete(index=name, params={"ignore": 404})
    return True


def _check_owner(client: Client, owner: Ownership, cause: Exception | None = None) -> None:
    name = naming.dead_letters_index(owner.alias)
    found = client.indices.get_mapping(index=name)
    if ownership(found[name]["mappings"]) != owner:
        raise AliasTaken(
            f"Index {name!r}, which would hold refused rows, was not made by this pipeline."
        ) from cause


def _refresh(client: Client, alias: str) -> bool:
    try:
        answer = client.indices.refresh(index=naming.dead_letters_index(alias))
    except NotFoundError:
        return False
    if answer["_shards"]["failed"]:
        raise TargetUnavailable(f"Dead letters of {alias!r} could not be refreshed.")
    return True
