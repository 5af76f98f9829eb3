"""Sends operations to one index until each has an outcome, or the time is used up.

Only what failed is sent again, with jittered backoff; a request that is refused as a whole is
halved until the culprit is alone. It must not know Arrow, nor what is done about refused
operations.

Example, five operations in one request:

    answer                      next
    429 for the request         all five again, after a pause
    200, items 201 201 429 201 201    the third again, after a pause
    400 for the request         halves: two and three operations, at once
    400 for the two             halves: one and one
    400 for the one             refused
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

import numpy as np
import numpy.typing as npt

from icdc_api.errors import Bug, IcdcError, PassingError, TargetUnavailable, Throttled
from icdc_api.spec.sink import MIN_BULK_BYTES
from icdc_spark.opensearch.bulk.concurrency import ConcurrencyLimit
from icdc_spark.opensearch.bulk.delivery import Delivery, RefusedOperation, VersionConflict
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.client.error_answers import parse_error_type, refuses_writes
from icdc_spark.opensearch.client.http import BulkAnswer, BulkEndpoint, NoAnswerError
from icdc_spark.opensearch.client.retry import RetryDelay
from icdc_spark.opensearch.client.target_errors import from_status
from icdc_spark.opensearch.stores.read_back import SAMPLES
from icdc_spark.opensearch.wire.item_outcome import (
    ItemAnswer,
    ItemOutcome,
    judge,
    parse_current_version,
)
from icdc_spark.opensearch.wire.operations import DELETE, Operations
from icdc_spark.opensearch.wire.pipeline_faults import (
    build_pipeline_fault,
    find_moved,
    refuse_pipeline_fault,
)
from icdc_spark.opensearch.wire.responses import ItemAnswers, UnreadableAnswerError, read

OVERLOADS_BEFORE_HALVING = 2
"""After so many 429s in a row a request is halved: it may be too large for the server's limits."""


@dataclass(frozen=True)
class _Request:
    """Operations to send in one request."""

    operations: Operations
    overloads: int = 0
    """How often in a row the server answered these operations with 429."""


@dataclass(frozen=True)
class _Attempt:
    """What one attempt left to do."""

    left: tuple[_Request, ...] = ()
    """Requests that are still to be sent."""
    problem: IcdcError | None = None
    """Why a pause is needed first; None where none is."""
    retry_after: float = 0.0
    """Seconds that the server asked to wait; 0 where it named none."""
    progress: bool = False
    """Whether some operation got its outcome: then the time for retries begins anew."""


@dataclass
class BulkClient:
    """Sends bulk requests to one endpoint; shared by the threads of a task."""

    endpoint: BulkEndpoint
    """The bulk API of the OpenSearch."""
    connection: Connection
    """Where that is; only for messages."""
    version: int
    """The version of the batch, by which conflicts are judged."""
    concurrency: ConcurrencyLimit
    """Bounds the requests that are under way in the task."""
    stopped: Event
    """Once set, no attempt is repeated."""
    progressed: Event
    """Set whenever some operation has got its outcome."""
    retry_seconds: float
    """Seconds without progress after which a failure is final."""
    check_owner: Callable[[], None]
    """Raises Fenced where a newer run has taken over; called before each request."""
    wait_turn: Callable[[Operations], float]
    """Waits until the limits of the pipeline let the operations be sent, and returns the seconds;
    raises an IcdcError where the task has ended meanwhile."""
    pipeline: str = ""
    """The ingest pipeline that documents go through; empty for none."""
    watched: frozenset[str] = frozenset()
    """Ids to report in `Delivery.written`."""
    outranked_is_foreign: bool = False
    """See `BulkTarget`."""
    reports_conflicts: bool = False
    """Whether a version conflict is reported in `Delivery.conflicts` instead of judged."""

    def deliver(self, index: str, operations: Operations, into: Delivery) -> None:
        """Send `operations` to `index` and fill `into`, also when it raises.

        Raises Throttled or TargetUnavailable when the time is used up, and what ends the batch at
        once: Fenced, Gap, TargetReadOnly, TargetInvalid, Unauthorized.
        """
        # First in, first out: halves are sent behind what was waiting, so no operation starves.
        queue = deque([_Request(operations)])
        delay = self._build_delay()
        while queue:
            limited_before = into.result.limited_seconds
            attempt = self._attempt(index, queue.popleft(), into)
            delay.extend(into.result.limited_seconds - limited_before)
            queue.extend(attempt.left)
            if attempt.progress:
                self.progressed.set()
                # The time without progress counts, not the time of the whole request.
                delay = self._build_delay()
            if attempt.problem is None:
                continue
            into.result.retries += 1
            # Not of an overload, which comes and goes with the requests themselves.
            reason = None if isinstance(attempt.problem, Throttled) else attempt.problem
            if not delay.wait(attempt.retry_after, reason=reason) or self.stopped.is_set():
                raise attempt.problem

    def _build_delay(self) -> RetryDelay:
        # The pause ends at once when the task is stopped.
        return RetryDelay(self.retry_seconds, pause=self.stopped.wait)

    def _attempt(self, index: str, request: _Request, into: Delivery) -> _Attempt:
        """Send one request and read its answer."""
        into.result.requests += 1
        into.result.bytes += len(request.operations.body)
        try:
            with self.concurrency.hold_slot():
                into.result.limited_seconds += self.wait_turn(request.operations)
                # After both waits, which may be long: the owner may change meanwhile.
                self.check_owner()
                answer = self._send(index, request, into)
        except PassingError as unknown_owner:
            return _Attempt((request,), unknown_owner)
        except NoAnswerError as lost:
            # Sent again although it may have been applied: then each item is a replay by version.
            into.result.ambiguous |= lost.ambiguous
            # A pipeline works before versions are compared: a request that it cannot finish within
            # the time of an answer would never end.
            is_slow = self.pipeline and lost.ambiguous and len(request.operations) > 1
            return _Attempt(_halve(request) if is_slow else (request,), lost.cause)
        if answer.status == 200:
            return self._handle_items(index, request, answer, into)
        return self._handle_refusal(request, answer, into)

    def _send(self, index: str, request: _Request, into: Delivery) -> BulkAnswer:
        """Send the request, and count how long its answer took, also where none came."""
        started = time.perf_counter()
        try:
            return self.endpoint.send(index, request.operations.body, pipeline=self.pipeline)
        finally:
            into.result.waiting_seconds += time.perf_counter() - started

    def _handle_refusal(self, request: _Request, answer: BulkAnswer, into: Delivery) -> _Attempt:
        """Decide about a request that was refused as a whole: no item of it was applied."""
        kind = parse_error_type(answer.text)
        problem = from_status(answer.status, kind, self.connection, reason=answer.text)
        if answer.status in (400, 413) and not refuses_writes(answer.status, kind):
            # One operation spoils all: an action line that cannot be read, or too many bytes.
            if len(request.operations) > 1:
                return _Attempt(_halve(request))
            # Whoever takes not even so little, a proxy say, refuses no row.
            if answer.status == 400 or len(request.operations.body) > MIN_BULK_BYTES:
                self._refuse(request.operations, ItemAnswer(answer.status, kind), into)
                return _Attempt(progress=True)
        if not problem.retryable:
            # Such as a block or a refused login: every other request would end the same way.
            raise problem
        if answer.status != 429:
            # A gateway answers 5xx for a server that may still be working on the request.
            into.result.ambiguous = True
            return _Attempt((request,), problem, answer.retry_after)
        into.result.throttled += 1
        self.concurrency.halve()
        again = _Request(request.operations, request.overloads + 1)
        if again.overloads >= OVERLOADS_BEFORE_HALVING and len(again.operations) > 1:
            return _Attempt(_halve(again), problem, answer.retry_after)
        return _Attempt((again,), problem, answer.retry_after)

    def _handle_items(
        self, index: str, request: _Request, answer: BulkAnswer, into: Delivery
    ) -> _Attempt:
        """Count the items that have an outcome; what is left are those to send again."""
        try:
            answers = read(answer.text, len(request.operations))
        except UnreadableAnswerError:
            # Such as the page of a gateway: the request behind it may have been applied.
            into.result.ambiguous = True
            unreadable = TargetUnavailable(
                f"{self.connection.where} gave an answer that is not from OpenSearch."
            )
            return _Attempt((request,), unreadable)
        applied = into.result.count_applied(request.operations, answers)
        if self.pipeline:
            self._note_indexed(index, request.operations, applied, answer, into)
        retry = self._judge_failures(index, request.operations, answers, applied, into)
        if self.watched:
            ids = map(request.operations.get_document_id, np.flatnonzero(applied).tolist())
            into.written.extend(document_id for document_id in ids if document_id in self.watched)
        if not retry:
            self.concurrency.grow()
            return _Attempt(progress=True)
        # All of them are sent again in one request, so one stands for the reason to wait.
        sample = answers.failed[retry[0]]
        if sample.status == 429:
            into.result.throttled += 1
            self.concurrency.halve()
        return _Attempt(
            (_Request(request.operations.pick(retry)),),
            from_status(sample.status, sample.kind, self.connection),
            answer.retry_after,
            progress=len(retry) < len(request.operations),
        )

    def _note_indexed(
        self,
        index: str,
        sent: Operations,
        applied: npt.NDArray[np.bool_],
        answer: BulkAnswer,
        into: Delivery,
    ) -> None:
        """Note which documents were written just now; TargetInvalid where they went elsewhere."""
        is_document = np.frombuffer(sent.expects, dtype="S1") != DELETE
        positions = np.flatnonzero(applied & is_document).tolist()
        moved = find_moved(answer.text, sent, positions, index=index, version=self.version)
        if moved:
            into.result.altered = True
            raise build_pipeline_fault(self.pipeline, moved)
        for position in positions[: SAMPLES - len(into.indexed)]:
            into.indexed.append(sent.pick_range(position, position + 1))

    def _judge_failures(
        self,
        index: str,
        sent: Operations,
        answers: ItemAnswers,
        applied: npt.NDArray[np.bool_],
        into: Delivery,
    ) -> list[int]:
        """Record the outcome of every failed item; return the positions to send again.

        Marks in `applied` what an earlier attempt of this batch had applied.
        """
        retry = []
        for position, answer in answers.failed.items():
            if answer.status == 409 and self.reports_conflicts:
                # Of dead letters: what a version means there is another matter than for rows.
                operation = sent.pick_range(position, position + 1)
                into.conflicts.append(
                    VersionConflict(operation, parse_current_version(answer.reason))
                )
                continue
            if self.pipeline:
                refuse_pipeline_fault(answer, index=index, name=self.pipeline)
            outcome = judge(
                answer,
                expect=sent.expects[position : position + 1],
                version=self.version,
                connection=self.connection,
                outranked_is_foreign=self.outranked_is_foreign,
            )
            if outcome in (ItemOutcome.ALREADY_APPLIED, ItemOutcome.SETTLED):
                into.result.count_repeated(outcome)
                applied[position] = True
            elif outcome is ItemOutcome.FOREIGN_EDIT:
                into.result.foreign_edits.add(sent.get_document_id(position))
            elif outcome is ItemOutcome.RETRY:
                retry.append(position)
            else:
                self._refuse(sent.pick_range(position, position + 1), answer, into)
        return retry

    def _refuse(self, operation: Operations, answer: ItemAnswer, into: Delivery) -> None:
        if operation.expects == DELETE:
            # Nothing in a delete can be refused, and as a dead letter it would have no document.
            raise Bug(f"OpenSearch refused a delete ({answer.status}, {answer.kind}).")
        into.refused.append(RefusedOperation(operation, answer))


def _halve(request: _Request) -> tuple[_Request, ...]:
    return tuple(_Request(half) for half in request.operations.split_in_half())
