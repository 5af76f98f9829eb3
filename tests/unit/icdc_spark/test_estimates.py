"""The estimates of a plan: ranges that hold what was measured, and which of two is cheaper."""

from typing import Any

import pytest

from icdc_spark.diff.change_plan import ChangePlan
from icdc_spark.diff.strategies import Strategy
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.verification.estimates import (
    Means,
    StepSize,
    choose_cheaper,
    estimate,
    measure_changes,
    measure_export,
)

TWO_CORES = Means(columns=20, cores=2, documents_per_second=0)
MILLION = 1_000_000
FEW = (0, 22_000)


def group(records: int = 0) -> FileGroup:
    return FileGroup(tasks=None, files=min(records, 1), records=records, bytes=records * 100)


def changes(**groups: int) -> ChangePlan:
    names = ("added", "removed", "shared_before", "shared_after", "deleted_keys")
    sizes: dict[str, Any] = {name: group(groups.get(name, 0)) for name in names}
    return ChangePlan(from_id=1, to_id=2, **sizes)


@pytest.mark.parametrize(
    ("work", "measured"),
    [
        pytest.param(measure_export(MILLION), 30.1, id="an export of 64 files"),
        pytest.param(StepSize(4 * MILLION, 0, FEW, strategy=Strategy.LINEAGE), 3.1, id="lineage"),
        pytest.param(
            StepSize(4 * MILLION, 0, FEW, strategy=Strategy.TWO_READS), 9.2, id="two reads"
        ),
        pytest.param(
            StepSize(4 * MILLION, 0, FEW, strategy=Strategy.ONE_READ), 13.8, id="one read"
        ),
        pytest.param(
            StepSize(22_000, 2 * MILLION, FEW, strategy=Strategy.ONE_READ),
            1.8,
            id="deletion vectors",
        ),
    ],
)
def test_the_range_holds_what_the_benchmarks_measured(work: StepSize, measured: float) -> None:
    least, most = estimate(work, TWO_CORES)["cpuSeconds"]
    assert least <= measured * 1.1
    assert most >= measured * 0.9


@pytest.mark.parametrize(
    ("means", "seconds"),
    [
        pytest.param(TWO_CORES, [11.6, 42.1], id="two cores"),
        pytest.param(TWO_CORES._replace(cores=16), [1.5, 42.1], id="sixteen cores"),
        pytest.param(
            TWO_CORES._replace(documents_per_second=10_000),
            [100.0, 100.0],
            id="a limit of the spec",
        ),
        pytest.param(TWO_CORES._replace(columns=1), [3.0, 11.2], id="one column"),
    ],
)
def test_time_follows_from_cores_columns_and_limits(means: Means, seconds: list[float]) -> None:
    assert estimate(measure_export(MILLION), means)["seconds"] == seconds


@pytest.mark.parametrize(
    ("plan", "strategy", "cheaper"),
    [
        pytest.param(
            changes(added=250_000, removed=250_000), Strategy.TWO_READS, "Changelog", id="an eighth"
        ),
        pytest.param(
            changes(added=2 * MILLION, removed=2 * MILLION),
            Strategy.TWO_READS,
            None,
            id="all files",
        ),
        pytest.param(changes(added=1000), Strategy.APPEND, "Changelog", id="appended rows"),
        pytest.param(
            changes(removed=60 * MILLION), Strategy.TWO_READS, "Export", id="most rows deleted"
        ),
    ],
)
def test_the_cheaper_one_is_named_where_it_does_not_depend_on_unknown_rows(
    plan: ChangePlan, strategy: Strategy, cheaper: str | None
) -> None:
    whole = estimate(measure_export(2 * MILLION), TWO_CORES)
    assert choose_cheaper(estimate(measure_changes(plan, strategy), TWO_CORES), whole) == cheaper


def test_appended_rows_are_all_written_and_rewritten_ones_perhaps() -> None:
    plan = changes(added=10)
    assert measure_changes(plan, Strategy.APPEND).written == (10, 10)
    assert measure_changes(plan, Strategy.ONE_READ).written == (0, 10)


@pytest.mark.parametrize(
    ("plan", "seconds"),
    [
        pytest.param(changes(removed=MILLION), [100.0, 100.0], id="files that are gone"),
        pytest.param(
            changes(added=MILLION // 2, removed=MILLION), [50.0, 100.0], id="half of the rows"
        ),
        pytest.param(changes(deleted_keys=MILLION), [100.0, 100.0], id="deletes by key"),
        pytest.param(
            changes(added=MILLION, deleted_keys=MILLION), [0.2, 100.0], id="rows written anew"
        ),
    ],
)
def test_deletes_count_for_a_limit_of_documents_as_well(
    plan: ChangePlan, seconds: list[float]
) -> None:
    limited = TWO_CORES._replace(documents_per_second=10_000)
    work = measure_changes(plan, Strategy.ONE_READ)
    least, most = estimate(work, limited)["seconds"]
    assert [least, most] == [pytest.approx(seconds[0], abs=2), seconds[1]]
