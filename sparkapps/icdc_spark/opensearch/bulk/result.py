"""Carries the outcome of a partition as data: our errors travel in it, never as exceptions.

An exception in a Spark task would be retried by Spark and reach the driver as a wall of text.
"""

import json
from dataclasses import dataclass, field, fields
from typing import Self

import numpy as np
import numpy.typing as npt

import icdc_api.errors
from icdc_api.errors import Bug, IcdcError
from icdc_api.job.resources import is_fuller
from icdc_spark.opensearch.wire.item_outcome import ItemOutcome
from icdc_spark.opensearch.wire.operations import CREATE, DELETE, Operations
from icdc_spark.opensearch.wire.responses import ItemAnswers

MAX_SAMPLES = 20
"""Ids that are named of many, so that a result stays small however much went wrong."""
_SAMPLES = ("foreign_edits", "suspects")
"""The fields of a result that are Samples."""


@dataclass
class Samples:
    """A count of documents, with some of their ids."""

    count: int = 0
    """The number of documents."""
    ids: list[str] = field(default_factory=list)
    """The ids of the first MAX_SAMPLES of them."""

    def add(self, document_id: str) -> None:
        """Count one document."""
        self.count += 1
        if len(self.ids) < MAX_SAMPLES:
            self.ids.append(document_id)

    def merge(self, other: "Samples") -> None:
        """Add the other's count, and its ids while there is room."""
        self.count += other.count
        # Cut again: a job has thousands of partitions, each with up to MAX_SAMPLES of them.
        self.ids = (self.ids + other.ids)[:MAX_SAMPLES]


@dataclass
class PartitionResult:
    """Counts of operations by their outcome, and the error that ended the partition."""

    upserted: int = 0
    """Documents written just now."""
    deleted: int = 0
    """Deletes applied just now, also of documents that were not there."""
    found: int = 0
    """Of these, those of documents that were there."""
    already_applied: int = 0
    """Operations that the batch had applied before: by an earlier attempt, or for another row with
    the same key."""
    settled: int = 0
    """Of these, those whose document the second pass of that attempt has written again."""
    foreign_edits: Samples = field(default_factory=Samples)
    """Documents left alone, because somebody else had edited them."""
    dead_letters: int = 0
    """Rows that were refused and stored as dead letters."""
    refused: dict[str, list[str]] = field(default_factory=dict)
    """Their ids, by the type of the error."""
    refused_new: list[str] = field(default_factory=list)
    """Those of these ids of which no document was expected to be there."""
    routings: dict[str, str] = field(default_factory=dict)
    """The routings of those ids that have one."""
    removed: int = 0
    """Deletes applied just now of what the index still had under the ids of refused rows."""
    met_new: int = 0
    """Ids of `refused_new` of which a document was there, of an older batch or of this one."""
    resolved: int = 0
    """Dead letters of older batches that were removed, because their key was written now."""
    suspects: Samples = field(default_factory=Samples)
    """Documents that were expected to be new, and that the index answered with "updated"."""
    bytes: int = 0
    """Bytes of all request bodies, those of repeated requests included."""
    requests: int = 0
    """Requests sent, repeated ones included."""
    retries: int = 0
    """Attempts that were not the first."""
    throttled: int = 0
    """Answers with status 429, of a request or of items in it."""
    waiting_seconds: float = 0.0
    """Time for which threads waited for answers, in sum."""
    limited_seconds: float = 0.0
    """Time for which threads waited because of the limits of the pipeline, in sum."""
    resources: dict[str, list[int]] = field(default_factory=dict)
    """By kind (`ResourceKind`) the most bytes that the task used, and the limit of that."""
    altered: bool = False
    """True if an ingest pipeline wrote a document otherwise than it was sent."""
    ambiguous: bool = False
    """True if some request went unanswered and may be applied later."""
    error: tuple[str, str] | None = None
    """Class name and message of the error that ended the partition; None where none did."""

    def fail(self, error: IcdcError) -> None:
        """Record `error`, unless there is one already: later ones follow from the first."""
        if self.error is None:
            self.error = (type(error).__name__, error.message)

    def merge(self, other: "PartitionResult") -> None:
        """Add the counts of another partition, or of another request."""
        # Over all fields, so that a count that is added to the class is never left out here.
        for count in fields(self):
            mine, theirs = getattr(self, count.name), getattr(other, count.name)
            if isinstance(mine, Samples):
                mine.merge(theirs)
            elif count.name == "refused":
                for kind, ids in theirs.items():
                    mine.setdefault(kind, []).extend(ids)
            elif count.name == "routings":
                mine.update(theirs)
            elif count.name == "resources":
                # The most of one process: those of a job are not in one container.
                mine.update(
                    (kind, most)
                    for kind, most in theirs.items()
                    if kind not in mine or is_fuller(most, mine[kind])
                )
            elif count.name == "error":
                self.error = mine or theirs
            elif count.name in ("altered", "ambiguous"):
                setattr(self, count.name, mine or theirs)
            else:
                setattr(self, count.name, mine + theirs)

    def count_applied(self, sent: Operations, answers: ItemAnswers) -> npt.NDArray[np.bool_]:
        """Count the operations that were applied just now; return which they are, by position.

        An index operation is applied with a status below 300; a delete also with 404, since no
        document was there. "Updated" (200) where nothing was expected hints at duplicate keys.
        """
        # One byte for each operation: a million rows are counted without an object for each.
        expects = np.frombuffer(sent.expects, dtype="S1")
        deletes = expects == DELETE
        applied: npt.NDArray[np.bool_] = (answers.statuses < 300) | (
            (answers.statuses == 404) & deletes
        )
        # A document that an ingest pipeline dropped has a status below 300 and was not written.
        applied[list(answers.failed)] = False
        if int(applied.sum()) + len(answers.failed) != len(sent):
            raise Bug("OpenSearch answered an item with neither success nor error.")
        self.deleted += int((applied & deletes).sum())
        self.found += int((applied & deletes & (answers.statuses < 300)).sum())
        self.upserted += int((applied & ~deletes).sum())
        suspects = np.flatnonzero(applied & (expects == CREATE) & (answers.statuses == 200))
        self.suspects.count += len(suspects)
        for position in suspects[: MAX_SAMPLES - len(self.suspects.ids)].tolist():
            self.suspects.ids.append(sent.get_document_id(position))
        return applied

    def count_repeated(self, outcome: ItemOutcome) -> None:
        """Count an operation that the batch had applied before."""
        self.already_applied += 1
        self.settled += outcome is ItemOutcome.SETTLED

    def has_error(self, kind: type[IcdcError]) -> bool:
        """Return whether the recorded error is of exactly this class."""
        return self.error is not None and self.error[0] == kind.__name__

    def raise_error(self) -> None:
        """Raise the recorded error, if there is one, as the class that it was."""
        if self.error is None:
            return
        name, message = self.error
        # Built of the message alone: a Fenced from a task has no epoch, so whoever catches it reads
        # the state document.
        kind = getattr(icdc_api.errors, name, Bug)
        raise kind(message)

    def to_json(self) -> str:
        """Return the text in which it leaves a Spark task."""
        samples = {name: vars(getattr(self, name)) for name in _SAMPLES}
        return json.dumps(vars(self) | samples)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the text of `to_json`."""
        content = json.loads(text)
        for name in _SAMPLES:
            content[name] = Samples(**content[name])
        # JSON has lists alone.
        content["error"] = tuple(content["error"]) if content["error"] else None
        return cls(**content)
