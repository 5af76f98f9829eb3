"""Play a history: random operations one after another, with the chances that each has."""

from collections.abc import Callable, Mapping

from icdc_testing.tables.histories import rows, shapes, sql, upkeep
from icdc_testing.tables.histories.history import TableHistory
from icdc_testing.tables.histories.rows import Description

Operation = Callable[[TableHistory], Description]

CHANCES: Mapping[Operation, int] = {
    rows.insert: 12,
    rows.copy_on_write: 12,
    rows.merge_on_read: 16,
    rows.delete_by_values: 6,
    rows.replace_partitions: 3,
    rows.overwrite: 2,
    rows.drop_files: 3,
    upkeep.compact: 6,
    upkeep.rewrite_deletes: 4,
    upkeep.rewrite_manifests: 3,
    upkeep.roll_back: 4,
    upkeep.commit_to_branch: 4,
    upkeep.expire: 3,
    shapes.evolve_schema: 2,
    shapes.evolve_partitions: 3,
    shapes.upgrade: 3,
    shapes.replace_table: 1,
}
"""How often each operation is tried, in relation to the others."""

STREAM: Mapping[Operation, int] = {
    rows.insert: 6,
    rows.upsert: 20,
    rows.delete_by_values: 6,
    rows.merge_on_read: 2,
    rows.copy_on_write: 2,
    rows.drop_files: 1,
    upkeep.compact: 2,
    upkeep.rewrite_manifests: 1,
    upkeep.roll_back: 1,
    upkeep.commit_to_branch: 1,
    shapes.evolve_partitions: 1,
}
"""Likewise, in a table that a streaming writer upserts into."""

UPSERTS: Mapping[Operation, int] = {rows.insert: 1, rows.upsert: 6}
"""Likewise, of which nearly every commit deletes by key."""

STATEMENTS: tuple[Operation, ...] = (sql.update, sql.delete, sql.merge)


def play(
    history: TableHistory,
    *,
    operations: int,
    statements: float,
    chances: Mapping[Operation, int] = CHANCES,
) -> None:
    """Play so many operations; those that cannot be done at the moment do not count.

    `statements` is the chance of a statement on Spark, which takes as long as twenty others.
    """
    done = 0
    while done < operations:
        if history.states and _runs_statements(history) and history.rng.random() < statements:
            chosen = history.rng.choice(STATEMENTS)
        else:
            (chosen,) = history.rng.choices(list(chances), weights=list(chances.values()))
        # The first operation is always an insert: nothing else can be done to an empty table.
        done += _play_step(history, chosen if history.states else rows.insert)


def _runs_statements(history: TableHistory) -> bool:
    """Return whether statements on Spark can be played on this table."""
    # Spark refuses some types, and merge-on-read in format version 1. The rows that it wrote are
    # matched with the model by their keys, so these must be unique.
    writable = history.version >= 2 or not history.kind.merges_on_read
    return history.for_spark and writable and not history.kind.repeats_keys


def _play_step(history: TableHistory, operation: Operation) -> bool:
    history.begin()
    said = operation(history)
    if said is not None:
        history.log.append(said)
    return said is not None
