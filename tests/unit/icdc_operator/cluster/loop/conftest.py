"""A pipeline in memory, as tests of the reconciler find it."""

import asyncio

import pytest

from icdc_operator.core.observed import RunPhase
from icdc_testing.operator.adapter.fakes.memory import SHOP, MemoryCluster
from icdc_testing.operator.deciding.pipelines import (
    make_active,
    make_behind,
    make_report,
    make_seen,
    make_spec,
)


@pytest.fixture
def working() -> MemoryCluster:
    """A pipeline whose run reports, and whose status says so."""
    cluster = MemoryCluster(
        make_active(
            make_spec(), make_seen(RunPhase.RUNNING, report=make_report(make_behind(9))), run_id="r"
        )
    )
    asyncio.run(cluster.make_reconciler().reconcile(SHOP))
    cluster.take_steps()
    return cluster
