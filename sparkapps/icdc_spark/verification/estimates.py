"""Estimates what the next step of a table costs, and what an export in its place would.

An estimate is a range. Its ends are what `docs/benchmarks.md` has measured of tables of 20 columns
on two cores, in proportion to rows and columns. It leaves out the start of the run, and what
OpenSearch itself needs for the documents.

Example, eight files of 2,000,000 rows of 20 columns rewritten, compared as `TwoReads`:

    the changes    reads 4,000,000 rows, writes 0 to 2,000,000 documents    7.5 to 94.1 CPU s
    an export      writes 2,000,000 documents                              46.1 to 82.7 CPU s

The ranges overlap, so neither is said to be cheaper. With one of the eight files rewritten the
changes take 1.4 to 13.1 CPU s, and they are. Pure.
"""

from typing import NamedTuple

from icdc_api.job.answers import WorkEstimate
from icdc_spark.diff.change_plan import ChangePlan
from icdc_spark.diff.strategies import Strategy

_COLUMNS = 20
"""Columns of the tables that were measured."""

_WRITE = (22.8e-6, 40.6e-6)
"""CPU seconds to read, form and send one document: the fastest and the slowest layout of files in
"A whole export"."""

_COMPARE = {
    Strategy.APPEND: 0.0,
    Strategy.STREAM: 0.0,
    Strategy.LINEAGE: 0.7e-6,
    Strategy.TWO_READS: 2.2e-6,
    Strategy.ONE_READ: 3.4e-6,
}
"""CPU seconds to compare one row of changed files: "Changelog", copy-on-write, by the rows of both
sides. What only grows is not compared."""

_HIDE = 0.5e-6
"""CPU seconds for one row of a file that only got new deletes: "Changelog", merge-on-read. Of most
of its rows nothing but the position is read."""

_VARIATION = (0.8, 1.3)
"""How far comparisons were from that, by keys and types of columns."""

_BATCH = (0.5, 1.5)
"""CPU seconds of any step: planning, and the queries, however small."""

_LEAST_SHARE = 0.2
"""What a row of one column costs, as a share of one of 20: not all grows with the columns."""


class StepSize(NamedTuple):
    """What a step does, by counts that are known before it."""

    compared: int = 0
    """Rows of files that were added and removed, which are read to be compared."""
    hidden: int = 0
    """Rows of files that only got new deletes."""
    written: tuple[int, int] = (0, 0)
    """Documents that it writes, at least and at most."""
    deleted: int = 0
    """Documents that it deletes, if keys stay as they are. Their CPU seconds are left out."""
    strategy: Strategy = Strategy.APPEND
    """How rows are compared."""


class Means(NamedTuple):
    """What the work is done with."""

    columns: int
    """Columns that the documents are made of."""
    cores: int
    """Tasks at a time."""
    documents_per_second: int
    """The limit of the spec; 0 for none."""


def measure_changes(changes: ChangePlan, strategy: Strategy) -> StepSize:
    """Return what applying a plan of changes does."""
    added = changes.added.records
    # These take each new row for changed; the others find out which were only moved.
    writes_all = strategy in (Strategy.APPEND, Strategy.STREAM)
    shared = changes.shared_after.records + sum(one.data.records for one in changes.value_deletes)
    # What is not written again. How many rows new deletes of a file hide is not known.
    deleted = changes.removed.records + changes.deleted_keys.records - added
    return StepSize(
        compared=added + changes.removed.records,
        hidden=shared,
        written=(added if writes_all else 0, added),
        deleted=max(0, deleted),
        strategy=strategy,
    )


def measure_export(rows: int) -> StepSize:
    """Return what exporting so many rows does."""
    return StepSize(written=(rows, rows))


def estimate(work: StepSize, means: Means) -> WorkEstimate:
    """Return the CPU seconds of the run and the seconds that the work takes, at least and at most.

    1,000,000 rows of 20 columns to be exported on two cores:
    {"cpuSeconds": [23.3, 42.1], "seconds": [11.6, 42.1]}
    """
    share = _LEAST_SHARE + (1 - _LEAST_SHARE) * means.columns / _COLUMNS
    read = work.compared * _COMPARE[work.strategy] + work.hidden * _HIDE
    cpu = [
        fixed + share * (read * factor + documents * each)
        for fixed, factor, documents, each in zip(
            _BATCH, _VARIATION, work.written, _WRITE, strict=True
        )
    ]
    # At most: one task that is longer than the others, or a target that answers slowly.
    elapsed = [cpu[0] / max(1, means.cores), cpu[1]]
    if limit := means.documents_per_second:
        elapsed = [
            max(time, (count + work.deleted) / limit)
            for time, count in zip(elapsed, work.written, strict=True)
        ]
    return {"cpuSeconds": _round(cpu), "seconds": _round(elapsed)}


def choose_cheaper(changes: WorkEstimate, export: WorkEstimate) -> str | None:
    """Return `Changelog` or `Export`; None where the ranges overlap.

    As `StepKind` names them.
    """
    if changes["cpuSeconds"][1] <= export["cpuSeconds"][0]:
        return "Changelog"
    return "Export" if export["cpuSeconds"][1] < changes["cpuSeconds"][0] else None


def _round(values: list[float]) -> list[float]:
    return [round(value, 1) for value in values]
