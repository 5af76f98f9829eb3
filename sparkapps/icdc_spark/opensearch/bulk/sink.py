"""The driver's side of the sink: one DataFrame of operations in, one BatchResult out.

It must not know what the operations mean for Iceberg, nor when a batch may be advanced.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from icdc_api.errors import DeadLetterLimit, Fenced
from icdc_spark.opensearch.bulk.partition_writer import write_batches
from icdc_spark.opensearch.bulk.refusals import finish_refused
from icdc_spark.opensearch.bulk.result import PartitionResult, Samples
from icdc_spark.opensearch.bulk.target import BulkTarget
from icdc_spark.opensearch.client.connection import client
from icdc_spark.opensearch.stores import dead_letters

_RESULT_SCHEMA = "result string"


@dataclass(frozen=True)
class BatchResult:
    """Counts of operations by what became of them.

    `already_applied` are replays, in none of the others. `dead_letters` are of this batch,
    `dead_letters_total` what the index holds now. `created_unexpectedly_updated` hints at
    duplicate keys. `ambiguous`: wait until the index is quiet before advancing. `error` is what
    ended the batch, raised by `write`.
    """

    upserted: int = 0
    deleted: int = 0
    already_applied: int = 0
    foreign_edits: Samples = field(default_factory=Samples)
    dead_letters: int = 0
    dead_letters_total: int = 0
    resolved: int = 0
    created_unexpectedly_updated: Samples = field(default_factory=Samples)
    bytes: int = 0
    requests: int = 0
    retries: int = 0
    ambiguous: bool = False


def write(
    lines: DataFrame, target: BulkTarget, *, is_superseded: Callable[[], bool]
) -> BatchResult:
    """Writes every operation of `lines` (columns `line`, `expect`) to the target.

    Returns when each is acknowledged or a dead letter; raises the first error of ours otherwise.
    The caller has checked the identity of the index. After an error some request may still be
    under way: before anything newer than this ordinal is written, also by a later attempt that
    itself was not ambiguous, the caller waits until the index is quiet.

    `is_superseded` tells whether a newer run has taken over, asked when a document has a version
    above the batch's: without such a run it is a write of somebody else.
    """
    admin = client(target.connection)
    try:
        known = dead_letters.known_ids(admin, target.alias)
        ready = replace(target, known_dead_letter_ids=target.known_dead_letter_ids | known)
        total = _run(lines, ready)
        if total.error_is(Fenced) and not is_superseded():
            ready = replace(ready, outranked_is_foreign=True)
            total = _run(lines, ready)
            total.ambiguous = True
        finish_refused(total, ready)
        letters = dead_letters.count(admin, target.alias) if known or total.dead_letters else 0
    finally:
        admin.close()
    if letters > target.max_dead_letters:
        raise DeadLetterLimit(
            f"Index {target.index!r} has refused {letters} rows, more than "
            f"deadLetters.maxRows ({target.max_dead_letters})."
        )
    return _batch_result(total, letters)


def _run(lines: DataFrame, target: BulkTarget) -> PartitionResult:
    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        result = write_batches(iter(batches), target)
        attempt = TaskContext.get()
        if attempt is not None and attempt.attemptNumber() > 0:
            # The worker before this one died, and may have left a request under way.
            result.ambiguous = True
        yield pa.RecordBatch.from_pydict({"result": [result.to_json()]})

    total = PartitionResult()
    results = lines.select("line", "expect").mapInArrow(task, _RESULT_SCHEMA)
    for row in results.collect():
        total.merge(PartitionResult.from_json(row["result"]))
    return total


def _batch_result(total: PartitionResult, letters: int) -> BatchResult:
    return BatchResult(
        upserted=total.upserted,
        deleted=total.deleted,
        already_applied=total.already_applied,
        foreign_edits=total.foreign_edits,
        dead_letters=total.dead_letters,
        dead_letters_total=letters,
        resolved=total.resolved,
        created_unexpectedly_updated=total.suspects,
        bytes=total.bytes,
        requests=total.requests,
        retries=total.retries,
        ambiguous=total.ambiguous,
    )
