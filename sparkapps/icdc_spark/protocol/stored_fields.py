"""The fields of the state document, and the form in which it is stored.

The checksum is known to `to_source` and `parse` alone. This module must not know which change may
follow which: `icdc_spark.protocol.state_document` does.
"""

import hashlib
import json
from typing import Any, Literal, Self

from pydantic import Field, ValidationError
from pydantic_core import to_json

from icdc_api.errors import Bug, StateCorrupt
from icdc_api.spec.sink import MAX_KEEP_INDICES
from icdc_spark.protocol.state_parts import (
    MAX_NODES,
    AbsentNode,
    Applied,
    Count,
    Instant,
    Intent,
    Owner,
    Part,
    RecordedDuplicates,
    RetainedIndex,
    Shards,
    SourceTable,
    Text,
    Totals,
)

CONTRACT_VERSION: Literal[6] = 6
"""Raised when an older version of the application could not go on from a document."""
MAX_BYTES = 72 * 1024
"""A document that grows beyond this is a bug: recovery reads one small document per table. It fits
with every field at its own bound and 1,024 shards, the most that OpenSearch allows by default."""
FLUSH_BYTES = 4 << 20
"""Bytes of changes after which OpenSearch flushes icdc-state. A merge removes replaced documents
only up to the last flush. By default that comes with 512 MB, which some 300,000 batches write, and
which a restart reads again."""
MAX_PREVIOUS_INDICES = 10
"""Older physical indices that are remembered; the oldest are forgotten, and stay."""
MAX_RETAINED_INDICES = MAX_KEEP_INDICES + 1
"""Those that the spec may ask for, and the one that an open export is about to replace."""


class StoredFields(Part):
    """All that is stored of one alias."""

    contract_version: Literal[1, 2, 3, 4, 5, 6] = CONTRACT_VERSION
    """The version of this form."""
    alias: Text
    """The alias that readers use, and the id of the document."""
    index: Text | None = None
    """The physical index behind the alias; None before the first export is complete."""
    index_uuid: Text | None = None
    """The UUID of that index."""
    shards: Shards | None = None
    """`index` at the last advance. None during an export, and in older versions' documents."""
    owner: Owner
    """The run that may write."""
    source: SourceTable
    """The table that the index follows."""
    document_spec: Text
    """A hash of how documents are made of rows; another one means that they would differ."""
    applied: Applied | None = None
    """The snapshot that the index equals; None before the first export is complete."""
    intent: Intent | None = None
    """The batch that may be partly written; None between batches."""
    last_ordinal: Count = 0
    """The greatest ordinal that was ever used, also by abandoned batches."""
    resync_nonce: Count = 0
    """The nonce of the re-export that was honoured last."""
    resync_id: Count | None = None
    """The id of the request for it; None in documents of older versions."""
    duplicates: RecordedDuplicates | None = None
    """Keys that several rows have; None where there are none."""
    totals: Totals = Totals()
    """Counts since the table was first exported."""
    last_index_number: Count = 0
    """The greatest number of a physical index before the last rollback, which names a lower one."""
    previous_indices: list[Text] = Field(default_factory=list, max_length=MAX_PREVIOUS_INDICES)
    """Older physical indices, by number: retained, or still to be removed."""
    retained: list[RetainedIndex] = Field(default_factory=list, max_length=MAX_RETAINED_INDICES)
    """Those of them whose end is known, the one that readers used last at the end. While an export
    is open, that is `index`. None in documents of older versions."""
    rolled_back_number: Count | None = None
    """The last sequence number of the table at the last rollback; None if an export has followed.
    While less is applied, no export takes the place of changes."""
    fault: Text | None = None
    """Why nobody knows what the index holds that is written, as a clause; None if it is known."""
    begun_index: Text | None = None
    """The last index that began without an export (StreamOnly), and so lacks the rows that have not
    changed since. None in documents of older versions."""
    absent_nodes: list[AbsentNode] = Field(default_factory=list, max_length=MAX_NODES)
    """Nodes that may come back with requests for `index`, or for that of an open export."""
    revision: Count | None = None
    """The number of times it was stored: its `_version`, unless it was put back from a copy."""
    store_history: Text | None = None
    """A digest of UUID and history of the icdc-state that it was written into. Another digest now
    means that icdc-state was restored since."""
    updated_at: Instant
    """The time of the last change."""

    def to_source(self) -> dict[str, Any]:
        """Return the stored form, with its checksum; Bug if it is too large."""
        content = self.model_dump(mode="json", by_alias=True)
        source = content | {"checksum": _compute_checksum(content)}
        size = len(to_json(source))
        if size > MAX_BYTES:
            raise Bug(f"The state document of {self.alias!r} has {size} bytes, limit {MAX_BYTES}")
        return source

    def measure(self) -> int:
        """Return the bytes of the stored form."""
        return len(to_json(self.to_source()))

    @classmethod
    def parse(cls, alias: str, source: dict[str, Any]) -> Self:
        """Return the document of `alias`; StateCorrupt if it is not exactly one that we wrote."""
        content = {key: value for key, value in source.items() if key != "checksum"}
        version = content.get("contractVersion")
        # First of all: a newer form may have another checksum, and no field of it is known here.
        if isinstance(version, int) and version > CONTRACT_VERSION:
            raise StateCorrupt(
                f"The state document {alias!r} in index icdc-state was written by a newer version "
                f"(contract {version}). Run that version or a later one: an export by this one "
                "would lack what it does not know of. Only if no newer version wrote it, restore "
                f"it, or delete the document {alias!r} in icdc-state to force a re-export."
            )
        # Before the fields are read: an edited document may be valid, and wrong all the same.
        if source.get("checksum") != _compute_checksum(content):
            raise build_state_corrupt(alias, "its checksum does not match its content")
        try:
            document = cls.model_validate(content)
        except ValidationError as error:
            # The path alone: what stands in the field may be a document's id, which is row content.
            where = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise build_state_corrupt(alias, f"field {where!r} is not valid") from error
        # Valid and whole, and copied under another id: as when icdc-state was edited by a script.
        if document.alias != alias:
            raise build_state_corrupt(alias, f"it belongs to alias {document.alias!r}")
        return document


def _compute_checksum(content: dict[str, Any]) -> str:
    # Key order and escapes may be changed on the way through OpenSearch and its clients.
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def build_state_corrupt(alias: str, problem: str) -> StateCorrupt:
    """Return the error for a stored document that cannot be trusted; `problem` is a clause."""
    return StateCorrupt(
        f"The state document {alias!r} in index icdc-state cannot be trusted: {problem}. "
        f"Restore it, or delete the document {alias!r} in icdc-state to force a re-export."
    )
