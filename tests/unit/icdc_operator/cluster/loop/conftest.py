"""A pipeline in memory, as tests of the reconciler find it."""

import asyncio

import pytest

from icdc_operator.core.observed import RunPhase
from icdc_testing.operator.adapter.fakes.memory import SHOP, MemoryCluster
from icdc_testing.operator.deciding.pipelines import (
    behind,
    make_active,
    make_seen,
    make_spec,
    report,
)


@pytest.fixture
def working() -> MemoryCluster:
    """A pipeline whose run reports, and whose status says so."""
    cluster = MemoryCluster(
        make_active(make_spec(), make_seen(RunPhase.RUNNING, report=report(behind(9))), run_id="r")
    )
    asyncio.run(cluster.reconciler().reconcile(SHOP))
    cluster.take_steps()
    return cluster
