"""A driver that stops renewing its report on a real API server, by a clock that leaps ahead."""

from datetime import UTC, datetime, timedelta

import pytest

from icdc_api.errors import FailureClass
from icdc_api.status.runs import Failure, RunState, RunStatus
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.runs.adapter import ClusterAdapter
from icdc_operator.core import decide
from icdc_operator.core.observed import Decision
from icdc_testing.kube.stored_pipelines import make_minimal
from icdc_testing.operator.adapter.stepping import SETTINGS, SteppedCluster, make_report
from icdc_testing.operator.deciding.pipelines import make_caught_up

pytestmark = pytest.mark.api

RUN, NEXT = "shop-e1-1", "shop-c2-1"
READS = 45
"""How often the operator reads the run at most; every 30 s, it is more than twenty minutes."""


class WatchingOperator:
    """An operator that remembers what it has read, and whose time passes as it is told."""

    def __init__(self, cluster: SteppedCluster, api: ClusterApi) -> None:
        self.namespace = cluster.pipelines.namespace
        self.now = datetime.now(UTC)
        self.adapter = ClusterAdapter(api, SETTINGS, now=lambda: self.now)

    async def step(self, seconds: float = 30.0) -> Decision:
        """Reconcile once, so many seconds after the last time."""
        self.now += timedelta(seconds=seconds)
        seen = await self.adapter.observe(self.namespace, "shop")
        assert seen is not None
        decision = decide.decide(seen.observed, self.now)
        if decision.status != seen.observed.status:
            seen = await self.adapter.save(seen, decision.status)
        for action in decision.actions:
            await self.adapter.act(seen, action)
        return decision


def start_driver(cluster: SteppedCluster) -> RunStatus:
    """Start the first run of a pipeline, whose driver then reports nothing new."""
    cluster.pipelines.apply(make_minimal())
    for _ in range(2):
        cluster.step()
    cluster.start_driver(RUN)
    run = cluster.observe().observed.status.current_run
    assert run is not None
    return run


def report(cluster: SteppedCluster, run: RunStatus, *, renewal_seconds: int | None = None) -> None:
    written = make_report(run, make_caught_up("shop.orders"), renewal_seconds=renewal_seconds)
    cluster.report(RUN, written)


def test_a_run_that_renews_its_report_no_longer_is_removed_and_another_one_begins(
    cluster: SteppedCluster,
) -> None:
    run = start_driver(cluster)

    async def reconcile(api: ClusterApi) -> tuple[Failure | None, Decision]:
        operator = WatchingOperator(cluster, api)
        failure = None
        # It renews its report, for more than ten minutes.
        for _ in range(6):
            report(cluster, run, renewal_seconds=120)
            for _ in range(4):
                decision = await operator.step()
                assert decision.status.current_run is not None
                assert decision.status.current_run.state is RunState.RUNNING
        for _ in range(READS):
            decision = await operator.step()
            current = decision.status.current_run
            if current is not None and current.epoch == run.epoch:
                failure = failure or current.failure
            elif NEXT in cluster.list_names("sparkapplication"):
                break
            if failure is not None and cluster.list_names("pod"):
                # The kubelet ends what it was asked to.
                command = ("delete", "pod", f"{RUN}-driver", "--force", "--grace-period=0")
                cluster.pipelines.run(*command)
        return failure, decision

    failure, decision = cluster.ask(reconcile)
    assert failure is not None
    assert (failure.failure_class, failure.reason) == (
        FailureClass.NODE_LOST,
        "DriverNotResponding",
    )
    assert decision.status.last_run is not None
    assert decision.status.last_run.failure == failure
    assert decision.status.consecutive_failures == 0
    assert cluster.list_names("sparkapplication") == [NEXT]


def test_a_report_of_an_image_that_never_renews_it_may_stay_as_it_is(
    cluster: SteppedCluster,
) -> None:
    run = start_driver(cluster)
    report(cluster, run)

    async def reconcile(api: ClusterApi) -> list[RunState]:
        operator = WatchingOperator(cluster, api)
        runs = [(await operator.step()).status.current_run for _ in range(READS)]
        return [current.state for current in runs if current is not None]

    assert cluster.ask(reconcile) == [RunState.RUNNING] * READS
