"""Keeps state documents in the hidden index `icdc-state`, changed by compare-and-set only.

It must not judge what a change means: `icdc_spark.protocol.state_document` does. A lost
compare-and-set is another run's win and ends this one as Fenced.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opensearchpy.exceptions import ConflictError, NotFoundError

from icdc_api.base import MAX_COUNT
from icdc_api.errors import Fenced, Gap, TargetInvalid, TargetUnavailable
from icdc_api.naming import STATE_INDEX
from icdc_spark.opensearch.client.connection import Connection, open_client
from icdc_spark.opensearch.client.retry import DRIVER_SECONDS, Result, retry_passing
from icdc_spark.opensearch.client.target_errors import translate_errors
from icdc_spark.opensearch.stores.creation import create_for_ourselves
from icdc_spark.opensearch.stores.indices import confirm_missing
from icdc_spark.protocol.state_document import StateDocument
from icdc_spark.protocol.stored_fields import FLUSH_BYTES

LOG = logging.getLogger(__name__)

_BODY: dict[str, dict[str, Any]] = {
    "settings": {
        "index.hidden": True,
        "index.number_of_shards": 1,
        "index.auto_expand_replicas": "0-1",
        "index.translog.flush_threshold_size": f"{FLUSH_BYTES >> 20}mb",
    },
    "mappings": {"dynamic": False},
}

_FIXED = frozenset({"index.number_of_shards"})
"""Settings that can only be given when an index is created."""


@dataclass(frozen=True)
class Stored:
    """A state document as OpenSearch has it."""

    document: StateDocument
    """The document."""
    seq_no: int
    """The sequence number of its last change, named by the next compare-and-set."""
    primary_term: int
    """The primary term of that change, named as well."""
    version: int
    """The number of times that OpenSearch has stored a document under this alias."""

    @property
    def is_original(self) -> bool:
        """Return False when it was put back from a copy, or was marked by `distrust`."""
        return self.document.revision in (None, self.version)


class StateStore:
    """The state documents of one OpenSearch. Requests are repeated for `patience` seconds."""

    def __init__(self, connection: Connection, *, patience: float = DRIVER_SECONDS) -> None:
        self._connection = connection
        self._patience = patience
        self._client = open_client(connection)
        self._uuid: str | None = None
        self._replaced: dict[str, StateDocument] = {}
        """By alias: the document that this process replaced last; there again if that was lost."""
        self._owned_at: dict[str, float] = {}
        """By alias: when this process asked for its last change that was stored."""

    @property
    def uuid(self) -> str:
        """Return the UUID of the index, as `ensure_index` read it, or else as it is now.

        Raises Gap if there is no such index.
        """
        if self._uuid is None:
            self._uuid = self._retry(self._read_uuid)
        if self._uuid is None:
            raise Gap(f"Index {STATE_INDEX!r}, which holds the progress, does not exist any more.")
        return self._uuid

    def ensure_index(self) -> None:
        """Create the index if it is missing."""
        self._retry(self._ensure_index)

    def get_owned_at(self, alias: str) -> float:
        """Return when this process is known to have owned the alias last, in seconds since 1970.

        That is just before its last change of the document was stored; 0.0 without one.
        """
        return self._owned_at.get(alias, 0.0)

    def load(self, alias: str) -> Stored | None:
        """Return the document of `alias`, None if there is none; StateCorrupt if it is not ours."""
        return self._retry(lambda: self._load(alias))

    def create(self, document: StateDocument) -> Stored:
        """Store the first document of an alias; Fenced if another run was faster."""
        return self._retry(lambda: self._write(document, {"op_type": "create"}))

    def replace(self, stored: Stored, document: StateDocument) -> Stored:
        """Store `document` if nobody has changed `stored` meanwhile; Fenced otherwise."""
        counted = _with_next_revision(stored, document)
        replaced = self._retry(lambda: self._write(counted, _build_condition(stored)))
        self._replaced[document.alias] = stored.document
        return replaced

    def begin(self, stored: Stored, document: StateDocument) -> Stored:
        """Store the intent of a batch like `replace`, and read it back before a row is written.

        An intent that was acknowledged and not stored would be found by the next change, but a
        driver may die before that. Its rows would then be in the index, and the next run, which
        knows of no batch, would use the ordinal again and take them for its own.
        """
        counted = _with_next_revision(stored, document)

        def write_and_read() -> Stored:
            # Repeated as a whole: a write that was stored after all conflicts with itself.
            written = self._write(counted, _build_condition(stored))
            if self._load(document.alias) != written:
                raise TargetUnavailable(
                    f"OpenSearch acknowledged a change of the state document {document.alias!r} "
                    "and did not store it. The change is made again."
                )
            return written

        begun = self._retry(write_and_read)
        self._replaced[document.alias] = stored.document
        return begun

    def delete(self, alias: str) -> None:
        """Delete the document, so that the alias can be exported anew or by somebody else."""
        self._retry(lambda: self._delete(alias))

    def delete_unchanged(self, stored: Stored) -> None:
        """Delete the document if nobody has changed `stored` meanwhile, Fenced otherwise.

        A document that does not exist is fine.
        """
        self._retry(lambda: self._delete_unchanged(stored))

    def close(self) -> None:
        """Close the sockets."""
        self._client.close()

    def _retry(self, call: Callable[[], Result]) -> Result:
        return retry_passing(call, seconds=self._patience)

    def _ensure_index(self) -> None:
        with translate_errors(self._connection):
            # One request answers both: whether it exists, and its UUID.
            self._uuid = self._read_uuid()
            if self._uuid is not None:
                return
            # Two first runs at once: the index of the other one serves as well.
            create_for_ourselves(self._client, STATE_INDEX, _BODY)

    def _read_uuid(self) -> str | None:
        with translate_errors(self._connection):
            try:
                settings = self._client.indices.get_settings(index=STATE_INDEX, name="index.uuid")
            except NotFoundError:
                return None
        if STATE_INDEX not in settings:
            # Somebody has put an alias of that name in front of a copy.
            raise TargetInvalid(
                f"{STATE_INDEX!r} has to be an index, and is an alias of "
                f"{', '.join(sorted(settings))} now. Remove the alias: the index is made again, "
                "and every table is exported anew."
            )
        return str(settings[STATE_INDEX]["settings"]["index"]["uuid"])

    def _mend_index(self) -> None:
        """Set up the index that OpenSearch created by itself for a write into a missing one."""
        settings = {key: value for key, value in _BODY["settings"].items() if key not in _FIXED}
        self._client.indices.put_settings(index=STATE_INDEX, body=settings)
        self._client.indices.put_mapping(index=STATE_INDEX, body=_BODY["mappings"])

    def _load(self, alias: str) -> Stored | None:
        with translate_errors(self._connection):
            try:
                answer = self._client.get(index=STATE_INDEX, id=alias)
            except NotFoundError:
                return None
        document = StateDocument.parse(alias, answer["_source"])
        return Stored(document, answer["_seq_no"], answer["_primary_term"], answer["_version"])

    def _write(self, document: StateDocument, condition: dict[str, Any]) -> Stored:
        # Before the request: the process may be stopped while it waits for the answer.
        asked = time.time()
        stored = self._store(document, condition)
        self._owned_at[document.alias] = asked
        return stored

    def _store(self, document: StateDocument, condition: dict[str, Any]) -> Stored:
        with translate_errors(self._connection):
            try:
                answer = self._client.index(
                    index=STATE_INDEX,
                    id=document.alias,
                    body=document.to_source(),
                    # Whatever default pipeline somebody gave to the index.
                    params={**condition, "pipeline": "_none"},
                )
            except ConflictError as error:
                return self._resolve_conflict(document, error)
            except NotFoundError as error:
                # A node that is starting knows no index.
                confirm_missing(self._client, STATE_INDEX)
                # Where no write may create an index (action.auto_create_index).
                raise Fenced(f"Index {STATE_INDEX!r} was deleted meanwhile.") from error
        # A cache or a proxy may have mixed up two answers.
        fits = (answer.get("_id"), answer.get("_index")) == (document.alias, STATE_INDEX)
        if not fits or answer["_seq_no"] <= condition.get("if_seq_no", -1):
            raise TargetUnavailable(
                f"OpenSearch answered a change of the state document {document.alias!r} with "
                "another document or an older state: a proxy may have mixed up answers. The step "
                "is repeated."
            )
        return Stored(document, answer["_seq_no"], answer["_primary_term"], answer["_version"])

    def _resolve_conflict(self, document: StateDocument, error: ConflictError) -> Stored:
        # An answer that got lost makes our own earlier attempt look like another run's.
        now = self._load(document.alias)
        # Equal as a whole, run and time included: no other run stores this very document. Its
        # revision may differ: it is another one where an attempt made good a change that was lost.
        if now is not None and _without_revision(now.document) == _without_revision(document):
            return now
        if now is None:
            # The conditional write created the index by itself, without our settings.
            self._mend_index()
            raise Fenced(f"The state document {document.alias!r} was deleted meanwhile.") from error
        replaced = self._replaced.pop(document.alias, None)
        ours = replaced is not None and replaced.owner == document.owner
        if ours and now.document == replaced:
            # The change before this one was acknowledged and is not there. Nobody else changed
            # the document since, so what we know of the index is true and is stored now; the next
            # run would not know that a batch was begun.
            LOG.warning("%s: a change of its state document was lost; it is stored", document.alias)
            again = document.model_copy(update={"revision": now.version + 1})
            return self._write(again if now.is_original else document, _build_condition(now))
        owner = now.document.owner
        raise Fenced(
            f"Alias {document.alias!r} is now owned by run {owner.run_id!r} of pipeline "
            f"{owner.pipeline!r} with epoch {owner.epoch}; this run has stopped writing.",
            epoch=min(owner.epoch, MAX_COUNT),
            run_id=owner.run_id,
        ) from error

    def _delete(self, alias: str) -> None:
        with translate_errors(self._connection):
            self._client.delete(index=STATE_INDEX, id=alias, params={"ignore": 404})

    def _delete_unchanged(self, stored: Stored) -> None:
        alias, condition = stored.document.alias, _build_condition(stored)
        with translate_errors(self._connection):
            try:
                self._client.delete(
                    index=STATE_INDEX, id=alias, params={**condition, "ignore": 404}
                )
            except ConflictError as error:
                # Also the answer for a document that was deleted, such as by an attempt of our own.
                if self._load(alias) is not None:
                    raise Fenced(
                        f"The state document {alias!r} was changed by another run before it could "
                        "be deleted; nothing was deleted."
                    ) from error


def _with_next_revision(stored: Stored, document: StateDocument) -> StateDocument:
    """Return `document` with the revision of the next change."""
    before = stored.version if document.revision is None else document.revision
    return document.model_copy(update={"revision": before + 1})


def _without_revision(document: StateDocument) -> StateDocument:
    return document.model_copy(update={"revision": None})


def _build_condition(stored: Stored) -> dict[str, Any]:
    """Return the condition that nobody has changed the document since."""
    return {"if_seq_no": stored.seq_no, "if_primary_term": stored.primary_term}
