"""Reads documents back after an ingest pipeline: it may add what the spec names, and nothing else.

A few of each request are read, whatever it holds: what a pipeline makes of one document in a
thousand is found when the index is verified. It must not know batches.

Example, a pipeline that adds `vector`:

    sent              read back                          outcome
    {"a": 1}          {"a": 1, "vector": [0.1]}          as it should be
    {"a": 1}          {"a": 2, "vector": [0.1]}          raises TargetInvalid: `a` is changed
    {"a": 1}          not in the index                   raises TargetInvalid: sent elsewhere
    version 64        version 65                         somebody has edited it since: not compared
"""

import json
from threading import Lock
from typing import Any

from opensearchpy.exceptions import NotFoundError

from icdc_api.errors import Gap, TargetInvalid
from icdc_api.spec.indices.ingest_pipeline import IngestPipeline
from icdc_spark.opensearch.client.connection import Client, Connection, open_client
from icdc_spark.opensearch.client.errors import repeats
from icdc_spark.opensearch.wire.canonical import dump_canonical

SAMPLES = 3
"""Documents of a request that are read back."""


class ReadBack:
    """Compares documents of one index with what was sent; used by all threads of a task."""

    def __init__(self, connection: Connection, index: str, pipeline: IngestPipeline) -> None:
        self._connection, self._index, self._pipeline = connection, index, pipeline
        self._lock = Lock()
        self._client: Client | None = None

    def check(self, action: dict[str, Any], document: bytes) -> None:
        """Raise TargetInvalid where the document is not what was sent; Gap where its index went.

        `action` is what stood before it in the request: `_id`, `version`, and `routing` if any.
        """
        with self._lock:
            if self._client is None:
                self._client = open_client(self._connection, pool=1)
            stored = _get(self._client, self._index, str(action["_id"]), action.get("routing"))
        if stored is None or stored["_version"] < action["version"]:
            raise self._refuse("A document is not in the index as it was written")
        if stored["_version"] > action["version"]:
            return
        names = _find_differing(document, stored["_source"], self._pipeline)
        if names:
            raise self._refuse(f"The field `{names[0]}` of a document is not as it was written")

    def close(self) -> None:
        """Close the socket."""
        if self._client is not None:
            self._client.close()

    def _refuse(self, what: str) -> TargetInvalid:
        return TargetInvalid(
            f"{what}: the ingest pipeline {self._pipeline.name!r} does more than to add fields. It "
            "may add those that sink.opensearch.pipeline.adds names, and change or drop nothing. "
            "Mend it, then raise spec.resync.nonce for a new index."
        )


@repeats
def _get(client: Client, index: str, document_id: str, routing: str | None) -> Any:
    """Return the document as it was written last, searchable or not; None where there is none."""
    params = {"routing": routing} if routing else {}
    try:
        return client.get(index=index, id=document_id, params=params)
    except NotFoundError as error:
        if isinstance(error.info, dict) and error.info.get("found") is False:
            return None
        raise Gap(f"The index {index!r} disappeared while it was written.") from error


def _find_differing(sent: bytes, stored: dict[str, Any], pipeline: IngestPipeline) -> list[str]:
    """Return the top-level fields, without those that the pipeline may add, that differ."""
    added = frozenset(pipeline.adds)
    one = json.loads(dump_canonical(sent, added))
    other = json.loads(dump_canonical(json.dumps(stored), added))
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
