"""Executors, workers, memory and disks that a real Spark loses: each gets its own error class."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .engine_faults import Loss, suffer_losses

pytestmark = pytest.mark.spark

EXECUTOR_MEMORY = "Raise spec.spark.executor.memory, or"
WORKER_MEMORY = (
    "a Python worker died, most likely because it ran out of memory; the run is retried. Raise "
)
FULL = " is full: no bytes or no inodes are left; the run is retried. Give Spark room"
READ_ONLY = " is read-only, most likely because it failed"

ON_EXECUTORS = {
    "heap": ("OutOfMemory", EXECUTOR_MEMORY),
    "executor": ("OutOfMemory", EXECUTOR_MEMORY),
    "worker": ("OutOfMemory", WORKER_MEMORY),
    # The next one has its core: the executor that hung has ended.
    "hung": ("NoProgress", "made no progress for too long and was cancelled; it is retried"),
    "python memory": ("OutOfMemory", WORKER_MEMORY),
}
ON_A_TINY_DISK = {
    "spill": ("DiskFull", FULL),
    "python disk": ("DiskFull", FULL),
    "inodes": ("DiskFull", FULL),
    "python inodes": ("DiskFull", FULL),
    # The last one, because the disk stays so.
    "read-only": ("NodeLost", READ_ONLY),
}


@pytest.fixture(scope="module")
def measured_losses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Loss]:
    """Return each loss by its name, from two real Sparks."""
    folder: Path = tmp_path_factory.mktemp("losses")
    with ThreadPoolExecutor(2) as pool:
        some = pool.submit(suffer_losses, tuple(ON_EXECUTORS), folder / "executors")
        others = pool.submit(suffer_losses, tuple(ON_A_TINY_DISK), folder / "disk", tiny_disk=True)
        return {loss.name: loss for loss in (*some.result(), *others.result())}


@pytest.mark.parametrize("name", [*ON_EXECUTORS, *ON_A_TINY_DISK])
def test_what_spark_loses_is_told_as_such_and_tried_again(
    measured_losses: dict[str, Loss], name: str
) -> None:
    kind, words = {**ON_EXECUTORS, **ON_A_TINY_DISK}[name]
    assert (measured_losses[name].kind, measured_losses[name].retryable) == (kind, True)
    assert words in measured_losses[name].message


@pytest.mark.parametrize("name", ["inodes", "python inodes"])
def test_a_disk_that_takes_no_more_files_is_named(
    measured_losses: dict[str, Loss], name: str
) -> None:
    assert "the disk of /" in measured_losses[name].message
