"""Work is cut so that all cores have some, and dynamic allocation a reason to add executors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icdc_spark.readers.parallelism import (
    MOST_CHUNKS,
    MOST_FILES,
    OPEN_BYTES,
    Packing,
    Waves,
    compute_packing,
    compute_task_count,
)

pytestmark = pytest.mark.unit


def make_dynamic_properties(most: str = "", cores: str = "1") -> dict[str, str]:
    """Return the properties of an application with dynamic allocation."""
    given = {"spark.dynamicAllocation.maxExecutors": most} if most else {}
    return {"spark.dynamicAllocation.enabled": "true", "spark.executor.cores": cores, **given}


@pytest.mark.parametrize(
    ("cores", "conf", "expected"),
    [
        (4, {}, 4),
        (0, {}, 1),
        (4, {"spark.dynamicAllocation.enabled": "false"}, 4),
        (2, make_dynamic_properties("8"), 4),
        (4, make_dynamic_properties("8"), 8),
        (8, make_dynamic_properties("8"), 8),
        (2, make_dynamic_properties("8", cores="2"), 4),
        (16, make_dynamic_properties("8", cores="2"), 16),
        # Spark says two where there is no executor yet.
        (2, make_dynamic_properties("1"), 2),
        (2, make_dynamic_properties(), 4),
    ],
)
def test_more_tasks_than_cores_wait_only_where_cores_may_come(
    cores: int, conf: dict[str, str], expected: int
) -> None:
    assert compute_task_count(cores, conf) == expected


@pytest.mark.parametrize(
    ("executors", "tasks", "seconds", "counts"),
    [
        # Without limits all tasks are busy, however long it takes.
        (None, 16, [4000, 4000], [16, 16, 16]),
        # As many chunks for each task.
        (None, 16, [3, 15, 40, 14], [16, 80, 80, 16, 16]),
        # A job without rows is no measure, and the driver has the files of a job in memory.
        (None, 2, [0, 0, 0], [2, 30, 32, 32]),
        # What is left to write when the window closes takes as long.
        (1, 16, [3, 15, 30, 1, 1], [1, 5, 5, 2, 16, 240]),
        (2, 16, [5, 15], [2, 6, 6]),
        # One chunk takes longer, and fewer chunks than executors would take as long.
        (4, 16, [1000, 1000], [4, 4, 4]),
        (4, 2, [1000, 0], [2, 2, 30]),
    ],
)
def test_a_job_of_an_export_takes_about_a_quarter_of_a_minute(
    executors: int | None, tasks: int, seconds: list[float], counts: list[int]
) -> None:
    now = [0.0]
    waves = Waves(executors, clock=lambda: now[0])
    chunks = [waves.count_chunks(tasks)]
    for spent in seconds:
        now[0] += spent
        chunks.append(waves.count_chunks(tasks))
    assert chunks == counts


@given(
    st.integers(1, 200),
    st.lists(st.integers(1, 3_000), max_size=300),
    st.floats(0, 100, allow_nan=False),
)
def test_a_job_of_an_export_has_a_bounded_number_of_files(
    tasks: int, files: list[int], seconds: float
) -> None:
    """Whatever the number of cores and the size of files: their driver holds all of them."""
    now = [0.0]
    waves, chunks, taken = Waves(None, clock=lambda: now[0]), iter(files), list[int]()
    while wave := waves.take(chunks, tasks, int):
        assert sum(wave[:-1]) < MOST_FILES
        assert len(wave) <= MOST_CHUNKS * tasks
        taken += wave
        now[0] += seconds
    assert taken == files


def test_a_job_with_fewer_chunks_because_of_their_files_is_measured_as_it_was() -> None:
    now = [0.0]
    waves = Waves(None, clock=lambda: now[0])
    many = iter([MOST_FILES // 4] * 4 + [1] * 1_000)
    assert len(waves.take(many, 16, int)) == 4
    now[0] += 3
    # 4 took 3 s, so 20 take 15 s; equal numbers for 16 tasks.
    assert len(waves.take(many, 16, int)) == 16


MIB = 1024 * 1024
MOST = 128 * MIB


@pytest.mark.parametrize(
    ("sizes", "tasks", "packing"),
    [
        ([], 4, (MOST, OPEN_BYTES)),
        # As many files for each task as there are for the one that gets most, and some slack.
        ([MIB] * 64, 16, (4.5 * MIB, MIB)),
        ([10 * MIB] * 5, 2, (30 * MIB, 4 * MIB)),
        ([MIB] * 16, 16, (MIB, MIB)),
        # Fewer files than tasks: the files are cut, where they have several row groups.
        ([64 * MIB], 16, (4 * MIB, OPEN_BYTES)),
        # Never more than the table wants.
        ([64 * MIB] * 100, 2, (MOST, 4 * MIB)),
        ([200 * MIB] * 2, 2, (MOST, 4 * MIB)),
    ],
)
def test_files_are_shared_out_among_the_tasks(
    sizes: list[int], tasks: int, packing: tuple[int, int]
) -> None:
    assert compute_packing(sizes, tasks, MOST) == pytest.approx(packing, abs=1)


@pytest.mark.parametrize(
    ("sizes", "cores", "tasks"),
    [
        ([MIB] * 64, 16, 16),
        ([MIB + n * MIB // 3200 for n in range(64)], 16, 16),
        ([MIB] * 40, 16, 14),
        # Large files beside many small ones: Iceberg makes 83, 4 and 42 tasks.
        ([OPEN_BYTES] * 2000 + [MOST] * 20, 16, 83),
        ([OPEN_BYTES] * 64 + [MOST] * 2, 16, 15),
        ([OPEN_BYTES] * 1000 + [MOST] * 10, 2, 42),
        # One core now, and more may come.
        ([MIB] * 1000, 1, 32),
    ],
)
def test_no_task_gets_most_of_the_small_files(sizes: list[int], cores: int, tasks: int) -> None:
    assert count_packed(sizes, compute_packing(sizes, cores, MOST)) == tasks


@pytest.mark.parametrize(("files", "tasks"), [(1, 33), (16, 517)])
def test_row_groups_are_no_task_each(files: int, tasks: int) -> None:
    row_groups = [MIB // 8] * 1000 * files
    packing = compute_packing([125 * MIB] * files, 16, MOST)
    assert count_packed(row_groups, packing) <= tasks


def count_packed(sizes: list[int], packing: Packing) -> int:
    """Return how many tasks Iceberg makes: a file goes into the first that has room, of ten."""
    open_tasks, full = list[int](), 0
    for size in (max(size, packing.file_bytes) for size in sizes):
        room = [at for at, filled in enumerate(open_tasks) if filled + size <= packing.task_bytes]
        if room:
            open_tasks[room[0]] += size
            continue
        open_tasks.append(size)
        if len(open_tasks) > 10:
            # The fullest one is closed.
            open_tasks.remove(max(open_tasks))
            full += 1
    return full + len(open_tasks)
