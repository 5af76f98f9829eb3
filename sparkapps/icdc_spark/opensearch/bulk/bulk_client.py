"""Delivers operations to one index until each has a verdict, or the time is used up.

Only what failed is sent again, with jittered backoff; a request refused as a whole is halved until
the culprit is alone. It must not know Arrow, nor what is done about refused operations.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event

import numpy as np

from icdc_api.errors import Bug, IcdcError, PassingError, TargetUnavailable
from icdc_spark.opensearch.bulk.concurrency import Gate
from icdc_spark.opensearch.bulk.result import MAX_SAMPLES, PartitionResult
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.client.errors import error_type, from_status, refuses_writes
from icdc_spark.opensearch.client.http import Answer, BulkEndpoint, NoAnswerError
from icdc_spark.opensearch.client.retry import Backoff
from icdc_spark.opensearch.wire.item_outcome import ItemAnswer, Verdict, judge
from icdc_spark.opensearch.wire.operations import CREATE, DELETE, Operations
from icdc_spark.opensearch.wire.responses import ItemAnswers, UnreadableAnswerError, read

PATIENT_WITH_OVERLOAD = 2
"""After so many 429s in a row a request is halved: it may be too large for the server's limits."""


@dataclass(frozen=True)
class Refused:
    """One operation that the index will never take, and why."""

    operation: Operations
    answer: ItemAnswer

    @property
    def document_id(self) -> str:
        """The document's id."""
        return self.operation.document_id(0)


@dataclass
class Delivered:
    """What became of the operations; `written` holds the watched ids that the index now has."""

    result: PartitionResult = field(default_factory=PartitionResult)
    refused: list[Refused] = field(default_factory=list)
    written: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Piece:
    operations: Operations
    overloads: int = 0


@dataclass(frozen=True)
class _Attempt:
    """What is left to send; `problem` says why, None when no pause is needed."""

    left: tuple[_Piece, ...] = ()
    problem: IcdcError | None = None
    retry_after: float = 0.0
    progress: bool = False


@dataclass
class Courier:
    """Sends requests to an endpoint; shared by the threads of a task. Times in seconds.

    `check_owner` raises Fenced where a newer run has taken over. `watched`: ids whose being
    written is to be reported. `outranked_is_foreign`: see BulkTarget.
    """

    endpoint: BulkEndpoint
    connection: Connection
    version: int
    gate: Gate
    stopped: Event
    retry_seconds: float
    check_owner: Callable[[], None]
    watched: frozenset[str] = frozenset()
    outranked_is_foreign: bool = False

    def deliver(self, index: str, operations: Operations, into: Delivered) -> None:
        """Fills `into`, also when it raises: Throttled, TargetUnavailable, Fenced, Gap, …"""
        queue = deque([_Piece(operations)])
        backoff = self._backoff()
        while queue:
            attempt = self._attempt(index, queue.popleft(), into)
            queue.extend(attempt.left)
            if attempt.progress:
                backoff = self._backoff()
            if attempt.problem is None:
                continue
            into.result.retries += 1
            if not backoff.wait(attempt.retry_after) or self.stopped.is_set():
                raise attempt.problem

    def _backoff(self) -> Backoff:
        return Backoff(self.retry_seconds, pause=self.stopped.wait)

    def _attempt(self, index: str, piece: _Piece, into: Delivered) -> _Attempt:
        into.result.requests += 1
        into.result.bytes += len(piece.operations.body)
        try:
            with self.gate.slot():
                # Here, because the wait for a place may be long.
                self.check_owner()
                answer = self.endpoint.send(index, piece.operations.body)
        except PassingError as unknown_owner:
            return _Attempt((piece,), unknown_owner)
        except NoAnswerError as lost:
            into.result.ambiguous |= lost.ambiguous
            return _Attempt((piece,), lost.cause)
        if answer.status == 200:
            return self._per_item(piece, answer, into)
        return self._whole(piece, answer, into)

    def _whole(self, piece: _Piece, answer: Answer, into: Delivered) -> _Attempt:
        """The request was not taken at all."""
        kind = error_type(answer.text)
        problem = from_status(answer.status, kind, self.connection, reason=answer.text)
        if answer.status in (400, 413) and not refuses_writes(answer.status, kind):
            if len(piece.operations) > 1:
                return _Attempt(tuple(_Piece(half) for half in piece.operations.halves()))
            self._refuse(piece.operations, ItemAnswer(answer.status, kind), into)
            return _Attempt(progress=True)
        if not problem.retryable:
            raise problem
        if answer.status != 429:
            # A gateway answers 5xx for a server that may still be working on the request.
            into.result.ambiguous = True
            return _Attempt((piece,), problem, answer.retry_after)
        self.gate.overloaded()
        again = _Piece(piece.operations, piece.overloads + 1)
        if again.overloads >= PATIENT_WITH_OVERLOAD and len(again.operations) > 1:
            halves = tuple(_Piece(half) for half in again.operations.halves())
            return _Attempt(halves, problem, answer.retry_after)
        return _Attempt((again,), problem, answer.retry_after)

    def _per_item(self, piece: _Piece, answer: Answer, into: Delivered) -> _Attempt:
        try:
            answers = read(answer.text, len(piece.operations))
        except UnreadableAnswerError:
            into.result.ambiguous = True
            unreadable = TargetUnavailable(
                f"{self.connection.where} answered something that is not OpenSearch's."
            )
            return _Attempt((piece,), unreadable)
        retry = self._settle(piece.operations, answers, into)
        if not retry:
            self.gate.went_well()
            return _Attempt(progress=True)
        sample = answers.failed[retry[0]]
        if sample.status == 429:
            self.gate.overloaded()
        return _Attempt(
            (_Piece(piece.operations.pick(retry)),),
            from_status(sample.status, sample.kind, self.connection),
            answer.retry_after,
            progress=len(retry) < len(piece.operations),
        )

    def _settle(self, done: Operations, answers: ItemAnswers, into: Delivered) -> list[int]:
        """Counts what has a verdict; returns the positions to send again."""
        expects = np.frombuffer(done.expects, dtype="S1")
        deletes = expects == DELETE
        applied = (answers.statuses < 300) | ((answers.statuses == 404) & deletes)
        applied[list(answers.failed)] = False
        if int(applied.sum()) + len(answers.failed) != len(done):
            raise Bug("OpenSearch answered an item with neither success nor error.")
        result = into.result
        result.deleted += int((applied & deletes).sum())
        result.upserted += int((applied & ~deletes).sum())
        suspects = np.flatnonzero(applied & (expects == CREATE) & (answers.statuses == 200))
        result.suspects.count += len(suspects)
        for position in suspects[: MAX_SAMPLES - len(result.suspects.ids)].tolist():
            result.suspects.ids.append(done.document_id(position))
        retry = []
        for position, answer in answers.failed.items():
            expect = done.expects[position : position + 1]
            verdict = self._judge(answer, expect)
            if verdict is Verdict.ALREADY_APPLIED:
                result.already_applied += 1
                applied[position] = True
            elif verdict is Verdict.FOREIGN_EDIT:
                result.foreign_edits.add(done.document_id(position))
            elif verdict is Verdict.RETRY:
                retry.append(position)
            else:
                self._refuse(done.part(position, position + 1), answer, into)
        if self.watched:
            ids = map(done.document_id, np.flatnonzero(applied).tolist())
            into.written.extend(each for each in ids if each in self.watched)
        return retry

    def _judge(self, answer: ItemAnswer, expect: bytes) -> Verdict:
        return judge(
            answer,
            expect=expect,
            version=self.version,
            connection=self.connection,
            outranked_is_foreign=self.outranked_is_foreign,
        )

    def _refuse(self, operation: Operations, answer: ItemAnswer, into: Delivered) -> None:
        if operation.expects == DELETE:
            raise Bug(f"OpenSearch refused a delete ({answer.status}, {answer.kind}).")
        into.refused.append(Refused(operation, answer))
