"""Four documents of an index that no longer equal their rows, each in another way."""

from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError

from icdc_spark.protocol.state_document import compute_base_version
from icdc_testing.bench.findings import IndexWrites
from icdc_testing.target.oracle import request
from icdc_testing.waiting.wait import wait_until

MISSING, STALE, DIFFERENT = 5, 7, 9
"""Ids of rows; that of the stale document was updated after the export."""
FIELD = "s1"
"""The field of the different document that somebody edits."""
_TOMBSTONE_SETTING = "index.gc_deletes"


class DamagedIndex:
    """An index that somebody edits."""

    def __init__(self, url: str, index: str) -> None:
        self._url = f"{url}/{index}"

    def read(self, document_id: object) -> dict[str, Any]:
        """Return the document as it is."""
        source: dict[str, Any] = request(f"{self._url}/_doc/{document_id}")["_source"]
        return source

    def damage(self, exported: Mapping[str, Any], extra: object) -> None:
        """Delete one document, add one, edit one, and put one back as it was `exported`."""
        surplus = self.read(DIFFERENT)
        request(f"{self._url}/_doc/{MISSING}", "DELETE")
        request(f"{self._url}/_doc/{extra}", "PUT", surplus)
        request(f"{self._url}/_doc/{DIFFERENT}", "PUT", {**surplus, FIELD: "edited"})
        self._put_back(exported)
        request(f"{self._url}/_refresh", "POST")

    def count_writes(self) -> IndexWrites:
        """Return what the index has written until now."""
        indexing = request(f"{self._url}/_stats/indexing")["_all"]["primaries"]["indexing"]
        return IndexWrites(indexed=indexing["index_total"], deleted=indexing["delete_total"])

    def _put_back(self, exported: Mapping[str, Any]) -> None:
        """Write the document of the export with its version, as a request that comes late does."""
        setting = request(f"{self._url}/_settings/{_TOMBSTONE_SETTING}?flat_settings=true")
        (read,) = setting.values()
        # OpenSearch remembers for a while which version was deleted, and refuses a lower one.
        self._set_tombstones("0ms")
        request(f"{self._url}/_doc/{STALE}", "DELETE")
        request(f"{self._url}/_refresh", "POST")
        version = compute_base_version(1)
        address = f"{self._url}/_doc/{STALE}?version={version}&version_type=external"

        def is_taken() -> bool:
            try:
                request(address, "PUT", dict(exported))
            except HTTPError as error:
                # It forgets by a clock of its own, which moves on a few times a second.
                if error.code != 409:
                    raise
                return False
            return True

        wait_until(is_taken, "the deletion is forgotten")
        self._set_tombstones(read["settings"].get(_TOMBSTONE_SETTING))

    def _set_tombstones(self, value: str | None) -> None:
        request(f"{self._url}/_settings", "PUT", {_TOMBSTONE_SETTING: value})
