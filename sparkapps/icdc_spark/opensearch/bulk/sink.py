"""The driver's side of the sink: one DataFrame of operations in, one BatchResult out.

It must not know what the operations mean for Iceberg, nor when a batch may be advanced.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from icdc_api.errors import DeadLetterLimit, Fenced
from icdc_api.spec.sink import DeadLetterPolicy
from icdc_spark.opensearch.bulk.dead_letter_writer import AFTER_LIMIT
from icdc_spark.opensearch.bulk.partition_writer import write_batches
from icdc_spark.opensearch.bulk.refusals import finish_refused
from icdc_spark.opensearch.bulk.result import PartitionResult, Samples
from icdc_spark.opensearch.bulk.target import BulkTarget
from icdc_spark.opensearch.client.connection import open_client
from icdc_spark.opensearch.client.pace import Pace, build_rate, share_out
from icdc_spark.opensearch.stores import dead_letters
from icdc_spark.opensearch.stores.indices import Ownership

_RESULT_SCHEMA = "result string, filling string"
_FILLING_CHARACTERS = 131_072
"""Twice what a Python worker holds back of its output: it sends only what does not fit."""


@dataclass(frozen=True)
class BatchResult:
    """Counts of a batch's operations by their outcome."""

    upserted: int = 0
    """Documents written just now."""
    deleted: int = 0
    """Deletes applied just now, also of documents that were not there."""
    already_applied: int = 0
    """Operations that the batch had applied before: by an earlier attempt, or for another row with
    the same key."""
    settled: int = 0
    """Of these, those whose document the second pass of that attempt has written again."""
    foreign_edits: Samples = field(default_factory=Samples)
    """Documents left alone, because somebody else had edited them."""
    dead_letters: int = 0
    """Rows of this batch that were refused."""
    dead_letters_total: int = 0
    """Dead letters that the pipeline has now, those of older batches included."""
    removed: int = 0
    """Deletes applied just now of what the index still had under the ids of refused rows."""
    met_new: int = 0
    """Refused rows whose documents were expected to be new, and whose ids had one: a hint at
    duplicate keys."""
    resolved: int = 0
    """Dead letters of older batches that were removed, because their key was written now."""
    created_unexpectedly_updated: Samples = field(default_factory=Samples)
    """Documents that were expected to be new and were not: a hint at duplicate keys."""
    bytes: int = 0
    """Bytes of all request bodies."""
    requests: int = 0
    """Requests sent, repeated ones included."""
    retries: int = 0
    """Attempts that were not the first."""
    throttled: int = 0
    """Answers with status 429, of a request or of items in it."""
    waiting_seconds: float = 0.0
    """Time for which all tasks waited for answers, in sum."""
    limited_seconds: float = 0.0
    """Time for which all tasks waited because of the limits of the pipeline, in sum."""
    resources: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By kind (`ResourceKind`) the most bytes that one task used, and the limit of that."""
    ambiguous: bool = False
    """True if a request may still be applied: wait until the index is quiet before advancing."""

    @property
    def acknowledged(self) -> int:
        """The operations that the index applied just now, each with a number of its own."""
        return self.upserted + self.deleted + self.removed


def write(
    lines: DataFrame,
    target: BulkTarget,
    *,
    is_superseded: Callable[[], bool],
    note_progress: Callable[[], None] = lambda: None,
    note_altered: Callable[[], None] = lambda: None,
) -> BatchResult:
    """Write every operation of `lines` (columns `line`, `expect`) to the target.

    Returns when each is acknowledged or a dead letter; raises the first IcdcError otherwise. The
    caller has checked the identity of the index. After an error some request may still be under
    way: the caller waits until the index is quiet before it writes anything newer than this
    ordinal, also after a later attempt that itself was not ambiguous.

    `is_superseded` returns whether a newer run has taken over. It is asked when a document has a
    version above the batch's: without such a run somebody else wrote that document.
    `note_progress` is called while the driver itself writes. `note_altered` is called before the
    error is raised for an ingest pipeline that changed documents.
    """
    admin = open_client(target.connection)
    owner = Ownership(target.pipeline, target.alias)
    try:
        stored_ids = dead_letters.list_ids(admin, owner)
        of_tasks, of_driver = _share_out(target, lines)
        known_ids = target.known_dead_letter_ids | stored_ids
        ready = replace(target, known_dead_letter_ids=known_ids, pace=of_tasks)
        total = _run(lines, ready)
        if total.has_error(Fenced) and not is_superseded():
            # Once more, now that it is known whose the higher versions are. What the first pass
            # wrote is a replay; it ended early, so requests of it may still be under way.
            ready = replace(ready, outranked_is_foreign=True)
            total = _run(lines, ready)
            total.ambiguous = True
        if total.altered:
            note_altered()
        # Before the count, and whatever the error: it raises that of the batch.
        finish_refused(total, replace(ready, pace=of_driver), note_progress)
        # No request where there were none and none was added: most batches.
        any_left = bool(stored_ids) or total.dead_letters > 0
        dead_letters_total = dead_letters.count(admin, owner) if any_left else 0
    finally:
        admin.close()
    _check_limit(target, dead_letters_total)
    return _build_batch_result(total, dead_letters_total)


def _check_limit(target: BulkTarget, total: int) -> None:
    """Raise DeadLetterLimit where tasks, which count their own, have stored too many together."""
    if target.dead_letter_policy is DeadLetterPolicy.INDEX and total > target.max_dead_letters:
        raise DeadLetterLimit(
            f"Index {target.index!r} has refused {total} rows, more than deadLetters.maxRows "
            f"({target.max_dead_letters}). {AFTER_LIMIT}"
        )


def _share_out(target: BulkTarget, lines: DataFrame) -> tuple[Pace | None, Pace | None]:
    """Return the share of the tasks of one executor, and that of the driver; None for no limit."""
    limit = build_rate(target.limits)
    if limit is None:
        return None, None
    context = lines.sparkSession.sparkContext
    # Of a local run all tasks are in one process of Spark.
    is_local = str(context.master).partition("[")[0] == "local"
    of_executor, of_driver = share_out(limit, 1 if is_local else target.executors)
    # The folder is one for all tables of the application, and Spark removes it at the end.
    return Pace(of_executor), Pace(of_driver, str(context._temp_dir))


def _run(lines: DataFrame, target: BulkTarget) -> PartitionResult:
    def write_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        attempt = TaskContext.get()
        for result in write_batches(iter(batches), target):
            if attempt is not None and attempt.attemptNumber() > 0:
                # The worker before this one died, and may have left a request under way.
                result.ambiguous = True
            yield _to_batch(result.to_json(), "")
            # Pushes the result out, or the driver would see it with the end of the task alone.
            yield _build_filling()

    total = PartitionResult()
    # A short row comes back from each partition, and from a long one every few seconds, by which
    # Spark's metrics show that it goes on: no document reaches the driver.
    results = lines.select("line", "expect").mapInArrow(write_partition, _RESULT_SCHEMA)
    # Without the fillings: they have done their work in the worker.
    for row in results.select("result").collect():
        if row["result"] is not None:
            total.merge(PartitionResult.from_json(row["result"]))
    return total


def _to_batch(result: str | None, filling: str) -> pa.RecordBatch:
    """Return one row of `_RESULT_SCHEMA`."""
    texts = (pa.array([text], pa.string()) for text in (result, filling))
    return pa.RecordBatch.from_arrays(list(texts), names=["result", "filling"])


@cache
def _build_filling() -> pa.RecordBatch:
    """Return the row that pushes out the one before it."""
    return _to_batch(None, " " * _FILLING_CHARACTERS)


def _build_batch_result(total: PartitionResult, dead_letters_total: int) -> BatchResult:
    return BatchResult(
        upserted=total.upserted,
        deleted=total.deleted,
        already_applied=total.already_applied,
        settled=total.settled,
        foreign_edits=total.foreign_edits,
        dead_letters=total.dead_letters,
        dead_letters_total=dead_letters_total,
        removed=total.removed,
        met_new=total.met_new,
        resolved=total.resolved,
        created_unexpectedly_updated=total.suspects,
        bytes=total.bytes,
        requests=total.requests,
        retries=total.retries,
        throttled=total.throttled,
        waiting_seconds=total.waiting_seconds,
        limited_seconds=total.limited_seconds,
        resources=total.resources,
        ambiguous=total.ambiguous,
    )
