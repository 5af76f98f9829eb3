"""Pipelines as `icdc ui` reads them."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from icdc_api import naming
from icdc_api.status.pipeline_status import Phase, PipelineStatus, TableStatus
from icdc_cli.commands.ui.readers import PageReading, SeenPipeline, parse_resource
from icdc_operator.core.conditions import summary
from icdc_operator.core.observed import Observed
from icdc_testing.operator.deciding.pipelines import (
    make_caught_up,
    make_observed,
    make_spec,
    make_unheard,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPEC = make_spec("shop.orders", "shop.customers")


@pytest.fixture
def make_pipeline() -> Callable[..., SeenPipeline]:
    """Return a pipeline with the conditions that the operator would write."""

    def build(
        *tables: TableStatus,
        name: str = "shop",
        phase: Phase | None = None,
        observed: Observed | None = None,
        **fields: Any,
    ) -> SeenPipeline:
        value = PipelineStatus(observed_generation=1, tables=tables, **fields)
        conditions = summary.build_conditions(value, observed or make_observed(SPEC), now=NOW)
        status = summary.summarise(value.model_copy(update={"conditions": conditions}))
        status = status.model_copy(update={"phase": phase or status.phase})
        return parse_resource(
            {
                "apiVersion": naming.API_VERSION,
                "kind": naming.KIND,
                "metadata": {"namespace": "sales", "name": name, "generation": 1},
                "spec": SPEC.to_resource(),
                "status": status.to_resource(),
            }
        )

    return build


@pytest.fixture
def unheard(make_pipeline: Callable[..., SeenPipeline]) -> SeenPipeline:
    """Return a pipeline that was caught up when its driver froze."""
    table = make_caught_up()
    world = make_unheard(SPEC, table)
    return make_pipeline(table, observed=world, current_run=world.status.current_run)


@pytest.fixture
def make_reading() -> Callable[..., PageReading]:
    """Return a reading of these pipelines."""

    def build(*pipelines: SeenPipeline, **fields: Any) -> PageReading:
        return PageReading("context here, namespace sales", NOW, pipelines, **fields)

    return build
