"""Maps each mode of a run to what is done with one table.

    mode      a table's entry in the result is made by        changes
    run       none: `table_follower` follows the tables       index, state, tags
    plan      `inspection.plan`                               nothing
    verify    `inspection.verify`                             nothing, unless it was planned
    repair    `inspection.repair`                             documents that differ
    letters   `inspection.list_dead_letters`                  nothing
    replay    `inspection.replay_dead_letters`                documents of dead letters
    preview   `preview.preview`                               nothing
    delete    `deletion.delete`                               removes index, state and tags

It must not know how the tables of a run are scheduled.
"""

from collections.abc import Callable, Mapping

from icdc_api.job.answers import TableEntry
from icdc_api.job.modes import RunMode
from icdc_spark.replication import deletion
from icdc_spark.replication.context import TableContext
from icdc_spark.verification import inspection, preview

HANDLERS: Mapping[RunMode, Callable[[TableContext], TableEntry]] = {
    RunMode.PLAN: inspection.plan,
    RunMode.VERIFY: inspection.verify,
    RunMode.REPAIR: inspection.repair,
    RunMode.DEAD_LETTERS: inspection.list_dead_letters,
    RunMode.REPLAY: inspection.replay_dead_letters,
    RunMode.PREVIEW: preview.preview,
    RunMode.DELETE: deletion.delete,
}
"""Every mode but `run`, which makes no entries."""
