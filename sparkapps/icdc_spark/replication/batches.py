"""Where a changelog batch ends, and whether its plan still holds.

A batch is one difference of two snapshots, and until it is through nothing of it shows as progress.
So a backlog that would be too much for one is taken in parts, oldest first, that end at snapshots
between. It must not know how a batch is written.
"""

import logging
from collections.abc import Callable, Sequence

from icdc_api.errors import DataFileMissing, SourceUnavailable, TableError
from icdc_spark.diff.change_plan import ChangePlan, Planner
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.iceberg.table.tables import IcebergTable

LOG = logging.getLogger(__name__)


def end_of_batch(
    table: IcebergTable,
    from_id: int | None,
    to_id: int,
    *,
    max_bytes: int,
    plan: Planner,
    documents_at: Callable[[int], DocumentSpec],
) -> int:
    """The snapshot up to which one batch reads no more than `max_bytes` (compressed).

    `to_id` where that fits, or where nothing is known of snapshots between; the first one on the
    way where not even that fits. A batch never ends at a snapshot whose documents would look
    otherwise than those of `to_id`.
    """
    chain = table.snapshots_between(from_id, to_id)
    if chain is None or len(chain) < 2:
        return to_id

    def fits(snapshot_id: int) -> bool:
        return plan(table, from_id, snapshot_id).bytes <= max_bytes

    if fits(to_id):
        return to_id
    wanted = documents_at(to_id).hash
    first = {info.schema_id: info.id for info in reversed(chain)}
    alike = {schema for schema, at in first.items() if _hash(documents_at, at) == wanted}
    ends = [info.id for info in chain[:-1] if info.schema_id in alike]
    end = last_that_fits([*ends, to_id], fits)
    LOG.info("%s: %d snapshots at once are too much: up to %d", table.name, len(chain), end)
    return end


def check_plan(
    table: IcebergTable, plan: ChangePlan, planner: Planner, missing: DataFileMissing
) -> None:
    """Raises SourceUnavailable where a file that is missing need not be read any more.

    A plan may read files of snapshots between its two, and nobody keeps these from being expired
    while it is carried out. Refreshes the table; raises Gap when one of the two is gone as well.
    """
    table.refresh()
    if planner(table, plan.from_id, plan.to_id) != plan:
        raise SourceUnavailable(
            f"{table.name}: snapshots were expired while their files were read; the batch is "
            f"planned anew ({missing})"
        ) from missing


def last_that_fits(ends: Sequence[int], fits: Callable[[int], bool]) -> int:
    """One of `ends` that fits while the next one does not, the first one if none is found.

    The last one is taken not to fit. Asks a number of times that grows with the logarithm.
    """
    low, high = 0, len(ends) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if fits(ends[middle]):
            low = middle
        else:
            high = middle
    return ends[low]


def _hash(documents_at: Callable[[int], DocumentSpec], snapshot_id: int) -> str | None:
    """None where the snapshot lacks what the documents need."""
    try:
        return documents_at(snapshot_id).hash
    except TableError:
        return None
