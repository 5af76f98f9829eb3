"""Executors, workers, memory and disks that a real Spark loses: each gets its own error class."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .engine_faults import Loss, suffer_losses

pytestmark = pytest.mark.spark

EXECUTOR_MEMORY = "Raise spec.spark.executor.memory, or"
WORKER_MEMORY = "a Python worker died, most likely for memory; it is retried. Raise "
GIVE_ROOM = "a disk of driver or executors is full; it is retried. Give Spark room"

ON_EXECUTORS = {
    "heap": ("OutOfMemory", EXECUTOR_MEMORY),
    "executor": ("OutOfMemory", EXECUTOR_MEMORY),
    "worker": ("OutOfMemory", WORKER_MEMORY),
    "python memory": ("OutOfMemory", WORKER_MEMORY),
}
ON_A_TINY_DISK = {
    "spill": ("DiskFull", GIVE_ROOM),
    "python disk": ("DiskFull", GIVE_ROOM),
    # The last one, because the disk stays so.
    "read-only": ("NodeLost", "a local disk of driver or executors is read-only"),
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
