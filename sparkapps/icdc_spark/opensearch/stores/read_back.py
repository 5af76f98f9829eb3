"""Reads documents back after an ingest pipeline: it may add what the spec names, and nothing else.

A few of each request are read: what a pipeline makes of one document in a thousand is found when
the index is verified. It must not know batches.

Example, a pipeline that adds `vector`:

    sent              read back                          outcome
    {"a": 1}          {"a": 1, "vector": [0.1]}          as it should be
    {"a": 1}          {"a": 2, "vector": [0.1]}          raises TargetInvalid: `a` is changed
    version 64        version 65, or no document         somebody has changed it since: not compared
    routing "7"       found only by a search             raises TargetInvalid: _routing is changed
"""

import json
from collections.abc import Mapping
from threading import Lock
from typing import Any

from opensearchpy.exceptions import NotFoundError

from icdc_api.spec.indices.ingest_pipeline import IngestPipeline
from icdc_spark.opensearch.client.connection import Client, Connection, open_client
from icdc_spark.opensearch.client.target_errors import repeat_passing
from icdc_spark.opensearch.wire.canonical import parse_canonical
from icdc_spark.opensearch.wire.pipeline_faults import build_pipeline_fault

SAMPLES = 3
"""Documents of a request that are read back."""


class ReadBack:
    """Compares documents of one index with what was sent; used by all threads of a task."""

    def __init__(
        self, connection: Connection, index: str, pipeline: IngestPipeline, *, pool: int
    ) -> None:
        self._connection, self._index, self._pipeline = connection, index, pipeline
        self._pool = pool
        self._lock = Lock()
        self._client: Client | None = None

    def check(self, action: Mapping[str, Any], document: bytes) -> None:
        """Raise TargetInvalid where the document is not what was written just now.

        `action` is what stood before it in the request: `_id`, `version`, and `routing` if any.
        """
        client = self._open()
        stored = _get(client, self._index, str(action["_id"]), action.get("routing"))
        if stored is not None and stored["_version"] != action["version"]:
            return
        changed = (
            find_changed(action, document, stored, frozenset(self._pipeline.adds))
            if stored is not None
            # On another shard, unless somebody has deleted it since.
            else _find_shown(client, self._index, str(action["_id"])) and "_routing"
        )
        if changed:
            raise build_pipeline_fault(
                str(self._pipeline.name), f"it changed {changed} of a document"
            )

    def close(self) -> None:
        """Close the socket."""
        if self._client is not None:
            self._client.close()

    def _open(self) -> Client:
        with self._lock:
            if self._client is None:
                self._client = open_client(self._connection, pool=self._pool)
            return self._client


@repeat_passing
def _get(client: Client, index: str, document_id: str, routing: str | None) -> Any:
    """Return the document as it was written last, searchable or not; None where there is none."""
    params = {"routing": routing} if routing else {}
    try:
        return client.get(index=index, id=document_id, params=params)
    except NotFoundError as error:
        # Any other 404 is about the index, and says nothing about the document.
        if isinstance(error.info, dict) and error.info.get("found") is False:
            return None
        raise


@repeat_passing
def _find_shown(client: Client, index: str, document_id: str) -> bool:
    """Return whether a search of all shards finds a document of this id."""
    # A search finds refreshed documents only, and this one was written just now.
    client.indices.refresh(index=index)
    query = {"query": {"ids": {"values": [document_id]}}, "size": 0}
    return int(client.search(index=index, body=query)["hits"]["total"]["value"]) > 0


def find_changed(
    action: Mapping[str, Any], sent: bytes, stored: Mapping[str, Any], added: frozenset[str]
) -> str:
    """Return what differs, the routing or the first field in order; empty if nothing does.

    Fields that were sent are named; others may have names that come from the values of a row.
    """
    if stored.get("_routing") != action.get("routing"):
        return "_routing"
    one = parse_canonical(sent, added)
    other = parse_canonical(json.dumps(stored["_source"]), added)
    changed = sorted(name for name in one if one[name] != other.get(name))
    if changed:
        return f"the field `{changed[0]}`"
    return "" if one.keys() == other.keys() else "the set of fields"
