"""Shorten a status so that it fits into etcd beside its spec. Pure.

A write that etcd refuses would leave a pipeline without a word, and its run without a record. So
texts of tables are cut, those of all tables alike, until the status fits:

    step  cut                                    retained
    1     nothing                                all
    2     costs of last batches                  progress, messages
    3     messages to 256 characters             how they begin
    4     messages to 64 characters              the same
    5     samples of document ids, too           counts
    6     messages, too                          reasons and counts
    7     tables, too                            conditions and runs

A spec whose status would need the last step is refused before, see `compute_least_bytes`: that step
is for statuses that no pipeline has by itself. Conditions are made of what the tables say before it
is cut.
"""

from collections.abc import Callable

from icdc_api.base import shorten
from icdc_api.json_size import measure_sent
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.pipeline_status import PipelineStatus, TableStatus

TABLE_BYTES = 1075
"""Bytes of a table with a hundred billion rows and every field but the names of table and index,
messages, samples and the cost of the last batch."""

OTHER_BYTES = 60_000
"""Bytes of a status without its tables: conditions and runs whose messages are all as long as they
may be."""


def fit(status: PipelineStatus, room: int | None) -> PipelineStatus:
    """Return `status`, cut as little as it takes to have at most `room` bytes as JSON.

    `room` None: nothing limits it. The result is the same when it is fitted again.
    """
    if room is None or measure(status) <= room:
        return status
    for cut in _STEPS:
        shorter = status.model_copy(update={"tables": tuple(map(cut, status.tables))})
        if measure(shorter) <= room:
            return shorter
    return status.model_copy(update={"tables": ()})


def compute_least_bytes(spec: PipelineSpec) -> int:
    """Return the room that a status of `spec` needs whatever is said of its tables: step 6."""
    names = [name for table in spec.tables for name in (table.name, table.index_name)]
    # The names once more in the record of the last resync.
    names += spec.resync.tables
    return OTHER_BYTES + TABLE_BYTES * len(spec.tables) + sum(map(measure_sent, names))


def measure(status: PipelineStatus) -> int:
    """Return the bytes of the status as JSON, by which its room is counted."""
    # As it is sent: the API server takes requests of 3 MiB, twice what etcd takes.
    return measure_sent(status.to_resource())


def _cut_messages(table: TableStatus, length: int) -> TableStatus:
    """Return `table` with messages of at most `length` characters, and no cost of a batch."""
    verified = table.verification
    if verified is not None:
        message = _shorten(verified.message, length)
        verified = verified.model_copy(update={"message": message})
    return table.model_copy(
        update={
            "message": _shorten(table.message, length),
            "pin_message": _shorten(table.pin_message, length),
            "verification": verified,
            "last_batch": None,
        }
    )


def _shorten(text: str | None, length: int) -> str | None:
    """Return `text` with at most `length` characters; None for none at all."""
    if not text:
        return text
    return shorten(text, length) if length else None


def _without_samples(table: TableStatus) -> TableStatus:
    duplicates, verification = table.duplicates, table.verification
    return table.model_copy(
        update={
            "duplicates": duplicates and duplicates.model_copy(update={"samples": ()}),
            "verification": verification and verification.model_copy(update={"samples": ()}),
        }
    )


_STEPS: tuple[Callable[[TableStatus], TableStatus], ...] = (
    lambda table: table.model_copy(update={"last_batch": None}),
    lambda table: _cut_messages(table, 256),
    lambda table: _cut_messages(table, 64),
    lambda table: _without_samples(_cut_messages(table, 64)),
    lambda table: _without_samples(_cut_messages(table, 0)),
)
