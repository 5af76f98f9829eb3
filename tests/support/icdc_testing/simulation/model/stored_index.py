"""The model of one index of OpenSearch: documents with versions, tombstones, sequence numbers."""

from dataclasses import dataclass, field, replace
from typing import Any

TOMBSTONE_SECONDS = 3600.0
"""`index.gc_deletes` as the product asks for it."""


@dataclass(frozen=True)
class Document:
    """One stored document."""

    version: int
    seq_no: int
    term: int
    source: dict[str, Any]


@dataclass(frozen=True)
class Tombstone:
    """The version of a deleted document, which OpenSearch forgets after a while."""

    version: int
    at: float


class VersionConflictError(Exception):
    """A write that the stored version refuses; `current` is that version."""

    def __init__(self, current: int) -> None:
        super().__init__(str(current))
        self.current = current


class RefusedDocumentError(Exception):
    """A document that does not fit the mapping."""


@dataclass
class StoredIndex:
    """One index, with one shard."""

    name: str
    uuid: str
    history: str
    settings: dict[str, Any]
    mapping: dict[str, Any]
    documents: dict[str, Document] = field(default_factory=dict)
    tombstones: dict[str, Tombstone] = field(default_factory=dict)
    aliases: dict[str, dict[str, Any]] = field(default_factory=dict)
    visible: dict[str, Document] = field(default_factory=dict)
    """Documents as of the last refresh."""
    max_seq_no: int = -1
    term: int = 1
    touched: set[str] = field(default_factory=set)
    """Ids that other hands wrote or deleted, until the product writes them: not judged."""
    unjudged: set[str] = field(default_factory=set)
    """Ids that are not judged any more: the product cannot keep them right."""
    opened: int = 0
    """How often its shard was opened again."""
    damaged: str | None = None
    """What was done to the whole index, after which it is not judged any more."""

    def copy(self) -> "StoredIndex":
        """Return a snapshot of it."""
        # Documents, sources and tombstones are replaced and never changed, so they are shared.
        return replace(
            self,
            settings=dict(self.settings),
            mapping=dict(self.mapping),
            documents=dict(self.documents),
            tombstones=dict(self.tombstones),
            aliases=dict(self.aliases),
            visible=dict(self.visible),
            touched=set(self.touched),
            unjudged=set(self.unjudged),
        )

    def refresh(self) -> None:
        """Make all documents visible."""
        self.visible = dict(self.documents)

    def forget_deletes(self) -> None:
        """Lose all tombstones, as a shard does that is opened again."""
        self.tombstones.clear()
        self.opened += 1

    def write(
        self,
        document_id: str,
        source: dict[str, Any] | None,
        now: float,
        *,
        external: int | None = None,
    ) -> tuple[str, int]:
        """Store a document, or delete it where `source` is None; return result and version."""
        current = self.find_version(document_id, now)
        there = self.documents.get(document_id)
        if external is not None and current is not None and external <= current:
            raise VersionConflictError(current)
        if source is not None and not _fits(source):
            raise RefusedDocumentError
        version = external if external is not None else (current or 0) + 1
        self.max_seq_no += 1
        if source is None:
            self.documents.pop(document_id, None)
            self.tombstones[document_id] = Tombstone(version, now)
            return ("deleted" if there else "not_found"), version
        self.documents[document_id] = Document(version, self.max_seq_no, self.term, source)
        self.tombstones.pop(document_id, None)
        return ("updated" if there else "created"), version

    def find_version(self, document_id: str, now: float) -> int | None:
        """Return the version that a write is compared with; None where nothing is known."""
        if document_id in self.documents:
            return self.documents[document_id].version
        tombstone = self.tombstones.get(document_id)
        if tombstone is None or now - tombstone.at > TOMBSTONE_SECONDS:
            return None
        return tombstone.version


def _fits(source: dict[str, Any]) -> bool:
    # The mapper refuses negative values: they stand for whatever a field cannot hold.
    value = source.get("value")
    return not (isinstance(value, int) and value < 0)
