"""SIGKILL of a Python worker while it sends, and of idle ones at every other step.

Spark tries the task again, so the run must come through by itself: what the dead worker had sent
is met again as already applied, and what it still had under way may arrive late.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.kill_points import (
    BULK_BYTES,
    BatchKind,
    KillList,
    KillPoint,
    Plot,
    assert_written_once,
    create_plot,
    end_holds,
    hold,
)
from icdc_testing.waiting.processes import find_connected, kill, list_python_workers
from icdc_testing.waiting.seeds import choose_cases, choose_seed

pytestmark = pytest.mark.spark

ACTIVE = (
    # Step, and how many bulk requests pass before; None: the seed chooses.
    (KillPoint.SOME_BULK, 0),
    (KillPoint.SOME_BULK_LOST, 0),
    (KillPoint.SOME_BULK, None),
    (KillPoint.SOME_BULK_LOST, None),
)
IDLE = (
    KillPoint.BEFORE_INTENT,
    KillPoint.AFTER_INTENT,
    KillPoint.ALL_BULK,
    KillPoint.AFTER_ADVANCE,
)
IDLE_OF_EXPORT = (*IDLE, KillPoint.BEFORE_ALIAS, KillPoint.AFTER_ALIAS)


@pytest.fixture
def pipeline(spark: SparkSession, proxy: FaultProxy, tmp_path: Path) -> Harness:
    """A pipeline with small bulk requests; tests give it its table."""
    harness = Harness(spark, proxy.url, tmp_path, [])
    harness.resource["spec"]["sink"]["opensearch"]["bulk"] = {"maxBytes": BULK_BYTES}
    return harness


@pytest.mark.parametrize("kind", BatchKind)
def test_a_run_survives_its_python_workers(
    pipeline: Harness, proxy: FaultProxy, clean_indices: str, kills: KillList, kind: BatchKind
) -> None:
    seed, chance = choose_seed(f"worker {kind}")
    table = create_plot(pipeline.spark, clean_indices, kind, "worker")
    pipeline.resource["spec"]["tables"] = [table.entry]
    if kind is not BatchKind.EXPORT:
        pipeline.sync()
    idle = IDLE_OF_EXPORT if kind is BatchKind.EXPORT else IDLE
    steps = choose_cases(f"worker {kind}", [*ACTIVE, *((step, 0) for step in idle)])
    for turn, (step, skip) in enumerate(steps, 1):
        table.change(turn)
        if kind is BatchKind.EXPORT:
            pipeline.resource["spec"]["resync"] = {"nonce": turn}
        passing = chance.randint(1, 3) if skip is None else skip

        def kill_worker(step: KillPoint = step) -> None:
            workers = list_python_workers()
            busy = find_connected(workers, proxy.port)
            if step.in_a_task:
                assert busy, "no Python worker is connected to OpenSearch"
            kills.add(seed, "Python worker", (kind, step))
            kill(chance.choice(busy if step.in_a_task else workers))

        _run_with(
            pipeline, proxy, table, kind, step, passing, kill_worker, late=chance.random() < 0.5
        )
        table.check()
    assert_written_once(proxy, clean_indices, [table])
    assert pipeline.inspect(RunMode.VERIFY)["equal"]


def _run_with(
    pipeline: Harness,
    proxy: FaultProxy,
    table: Plot,
    kind: BatchKind,
    step: KillPoint,
    skip: int,
    act: Callable[[], None],
    *,
    late: bool,
) -> None:
    """Run to the end, and does something while the run is held at a step."""
    held = hold(proxy, table.predict_batch(kind), step, skip=skip)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(pipeline.sync)
        held.wait()
        asked = len(proxy.list_requests("/_tasks"))
        try:
            act()
        finally:
            # The driver waits for its answer; only a dead worker's request may be lost for good.
            end_holds(proxy, [held], late=late or not step.in_a_task)
        running.result()
    if step.in_a_task:
        waited = len(proxy.list_requests("/_tasks")) > asked
        assert waited, "the run went on while a request of the dead worker could be under way"
