"""Stores rows that the index refused in `<alias>-dead-letters`, one document per document id.

They carry a version of the batch that refused the row, so that a removal can only remove those of
older batches, in whatever order requests arrive. It must not know why rows are refused.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from opensearchpy.exceptions import NotFoundError

from icdc_api import naming
from icdc_api.errors import AliasTaken, TargetUnavailable
from icdc_api.job.answers import DeadLetterEntry
from icdc_spark.opensearch.client.connection import Client
from icdc_spark.opensearch.client.scan import read_limits
from icdc_spark.opensearch.client.shards import require_all_shards
from icdc_spark.opensearch.client.target_errors import repeat_passing
from icdc_spark.opensearch.stores import indices
from icdc_spark.opensearch.stores.creation import create_for_ourselves
from icdc_spark.opensearch.stores.indices import Ownership, read_ownership, with_ownership
from icdc_spark.opensearch.wire.item_outcome import ItemAnswer
from icdc_spark.opensearch.wire.operations import build_index_entry
from icdc_spark.opensearch.wire.refusal_reasons import without_values

MAX_DOCUMENT_BYTES = 1 << 20
"""Of a larger document only the size is stored: it was probably refused for its size."""
MAX_REASON = 1000
"""Characters of a reason that are stored."""
_PAGE = 5000
"""Ids in one answer, for which OpenSearch allows 10,000."""
_PAGES = {"index.max_result_window": 10_000}  # a template may have less

_MAPPING: dict[str, Any] = {
    "dynamic": "strict",
    "properties": {
        # 8,191 characters of four bytes: more would pass Lucene's limit of 32,766 for one term.
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
    """The batch that refused rows come from."""

    table: str
    """The name of the table."""
    snapshot_id: str
    """The snapshot that the batch writes."""
    ordinal: int
    """The ordinal of the batch."""
    version: int
    """The version with which its dead letters are stored."""


@dataclass(frozen=True)
class StoredDeadLetter:
    """A dead letter as the index has it."""

    version: int
    """Its document version."""
    ordinal: int
    """The ordinal of the batch that stored it."""


def build_entry(document_id: str, document: bytes, answer: ItemAnswer, origin: Origin) -> bytes:
    """Build the bulk entry that stores one refused row."""
    content: DeadLetterEntry = {
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
    return build_index_entry(document_id, origin.version, json.dumps(content).encode())


@repeat_passing
def ensure_index(client: Client, owner: Ownership) -> None:
    """Create the index if it is missing; AliasTaken if one of that name is not ours."""
    name = naming.name_dead_letters_index(owner.alias)
    # One shard is enough: there are at most deadLetters.maxRows of them.
    body: dict[str, Any] = {
        # A copy where there is a second node for it; on a single node the index stays green.
        "settings": {**_PAGES, "index.number_of_shards": 1, "index.auto_expand_replicas": "0-1"},
        "mappings": with_ownership(_MAPPING, owner),
    }
    # Two tasks at once, or an index of an earlier batch: any of ours will do.
    if not create_for_ourselves(client, name, body):
        _check_owner(client, owner)


@repeat_passing
def list_ids(client: Client, owner: Ownership, ordinal: int | None = None) -> frozenset[str]:
    """Return the ids that have a dead letter now, of one batch or of all; at most maxRows."""
    if not _refresh_ours(client, owner):
        return frozenset()
    ids: set[str] = set()
    wanted = {"match_all": {}} if ordinal is None else {"term": {"ordinal": ordinal}}
    query: dict[str, Any] = {"size": _PAGE, "_source": ["id"], "sort": ["id"], "query": wanted}
    while True:
        answer = client.search(index=naming.name_dead_letters_index(owner.alias), body=query)
        require_all_shards(answer, f"search for dead letters of {owner.alias!r}")
        hits = answer["hits"]["hits"]
        ids.update(hit["_source"]["id"] for hit in hits)
        if len(hits) < _PAGE:
            return frozenset(ids)
        # Ids are unique, so paging by them misses none and repeats none.
        query["search_after"] = hits[-1]["sort"]


@repeat_passing
def read_stored(
    client: Client, alias: str, ids: Sequence[str]
) -> dict[str, StoredDeadLetter | None]:
    """Return the dead letters under `ids` as they are now, refreshed or not; None for no letter."""
    stored: dict[str, StoredDeadLetter | None] = {}
    # One request for each: rare, and a multi-get would need a permission of its own.
    for document_id in ids:
        try:
            answer = client.get(
                index=naming.name_dead_letters_index(alias),
                id=document_id,
                params={"_source_includes": "ordinal"},
            )
        except NotFoundError:
            stored[document_id] = None
        else:
            ordinal = int(answer["_source"]["ordinal"])
            stored[document_id] = StoredDeadLetter(answer["_version"], ordinal)
    return stored


@repeat_passing
def list_newest(
    client: Client, owner: Ownership, *, ids: Sequence[str] | None, size: int, documents: bool
) -> list[DeadLetterEntry]:
    """Return dead letters of the newest batches, at most `size` of them; of `ids` alone if given.

    Without `documents` they hold no values of rows but ids. AliasTaken where the index is not ours.
    """
    name = naming.name_dead_letters_index(owner.alias)
    if not _refresh(client, owner.alias):
        return []
    _check_owner(client, owner)
    query = {
        "size": size,
        # A request names 10,000 ids at most, and OpenSearch takes 65,536 terms.
        "query": {"match_all": {}} if ids is None else {"terms": {"id": list(ids)}},
        "sort": [{"ordinal": "desc"}, {"id": "asc"}],
        "_source": True if documents else {"excludes": ["document"]},
    }
    answer = client.search(index=name, body=query)
    require_all_shards(answer, f"search for dead letters of {owner.alias!r}")
    hits = answer["hits"]["hits"]
    dead_letters: list[DeadLetterEntry] = [hit["_source"] for hit in hits]
    if not documents:
        for dead_letter in dead_letters:
            dead_letter["reason"] = without_values(dead_letter["reason"])
    return dead_letters


@repeat_passing
def count(client: Client, owner: Ownership, *, ordinal: int | None = None) -> int:
    """Return the number of dead letters now, of one batch or of all."""
    if not _refresh_ours(client, owner):
        return 0
    query = {"match_all": {}} if ordinal is None else {"term": {"ordinal": ordinal}}
    counted = client.count(index=naming.name_dead_letters_index(owner.alias), body={"query": query})
    require_all_shards(counted, f"count of dead letters of {owner.alias!r}")
    return int(counted["count"])


@repeat_passing
def read_last_ordinal(client: Client, owner: Ownership) -> int:
    """Return the greatest ordinal of a batch that a dead letter is from; 0 where there is none."""
    if not _refresh_ours(client, owner):
        return 0
    answer = client.search(
        index=naming.name_dead_letters_index(owner.alias),
        body={"size": 0, "aggs": {"last": {"max": {"field": "ordinal"}}}},
        # A part of the shards would give a lower ordinal, which was used before.
        params={"allow_partial_search_results": "false"},
    )
    return int(answer["aggregations"]["last"]["value"] or 0)


@repeat_passing
def purge_older(client: Client, owner: Ownership, ordinal: int) -> int:
    """Remove dead letters of batches before `ordinal`, which an export has made untrue.

    Returns their number. Called once the alias has moved.
    """
    if not _refresh_ours(client, owner):
        return 0
    return _delete(client, owner, {"range": {"ordinal": {"lt": ordinal}}})


@repeat_passing
def purge_written(client: Client, owner: Ownership, index: str) -> int:
    """Remove dead letters of rows that have a document in `index`; return their number.

    Called once readers see that index again, for which the rows of all others are still refused.
    """
    if not (ids := sorted(list_ids(client, owner))):
        return 0
    indices.refresh_and_count(client, index)
    (_, page), deleted = read_limits(client, index), 0
    for start in range(0, len(ids), page):
        # By a search, which finds documents on whatever shard their routing has led them to.
        query = {"ids": {"values": ids[start : start + page]}}
        answer = client.search(index=index, body={"query": query, "size": page, "_source": False})
        require_all_shards(answer, f"search for rows of {owner.alias!r} that were refused")
        if written := [hit["_id"] for hit in answer["hits"]["hits"]]:
            deleted += _delete(client, owner, {"ids": {"values": written}})
    return deleted


def _delete(client: Client, owner: Ownership, query: Mapping[str, Any]) -> int:
    """Remove the dead letters that a query finds; return their number."""
    answer = client.delete_by_query(
        index=naming.name_dead_letters_index(owner.alias),
        body={"query": query},
        # A dead letter that is written at the same moment is of a newer batch: it stays.
        params={"refresh": "true", "conflicts": "proceed"},
    )
    if answer.get("failures") or answer.get("timed_out"):
        raise TargetUnavailable(f"Dead letters of {owner.alias!r} could not be removed.")
    return int(answer["deleted"])


@repeat_passing
def owns_index(client: Client, owner: Ownership) -> bool | None:
    """Return whether the index is ours; None when there is none."""
    try:
        return _is_ours(client, owner)
    except NotFoundError:
        return None


def _check_owner(client: Client, owner: Ownership) -> None:
    name = naming.name_dead_letters_index(owner.alias)
    if not _is_ours(client, owner):
        raise AliasTaken(
            f"Index {name!r}, which would hold refused rows, was not made by this pipeline."
        )


def _is_ours(client: Client, owner: Ownership) -> bool:
    name = naming.name_dead_letters_index(owner.alias)
    # Absent under this name where it is an alias, such as that of another pipeline.
    index = client.indices.get_mapping(index=name).get(name)
    return index is not None and read_ownership(index["mappings"]) == owner


def _refresh_ours(client: Client, owner: Ownership) -> bool:
    """Make all dead letters visible to searches; False where there is no index of them.

    An index or alias of somebody else is none: its documents may have fields of the same names,
    and would be counted, or deleted, as dead letters.
    """
    return _refresh(client, owner.alias) and _is_ours(client, owner)


def _refresh(client: Client, alias: str) -> bool:
    """Make all dead letters visible to searches; False where there is no index of them."""
    try:
        answer = client.indices.refresh(index=naming.name_dead_letters_index(alias))
    except NotFoundError:
        return False
    if answer["_shards"]["failed"]:
        raise TargetUnavailable(f"Dead letters of {alias!r} could not be refreshed.")
    return True
