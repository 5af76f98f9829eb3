from collections.abc import Iterator

import pytest

from icdc_spark.opensearch.client import connection
from icdc_spark.replication.context import TableContext
from icdc_testing.simulation.model.target import ModelTarget
from icdc_testing.target.modelled import TargetConnection, build_context, fill


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> ModelTarget:
    """OpenSearch, with two indices of the table, of which readers use the second."""
    made = ModelTarget(lambda: 0.0)
    monkeypatch.setattr(connection, "OpenSearchConnection", TargetConnection)
    monkeypatch.setattr(TargetConnection, "target", made, raising=False)
    monkeypatch.setattr(TargetConnection, "left", None)
    fill(made)
    return made


@pytest.fixture
def context(target: ModelTarget) -> Iterator[TableContext]:
    """The table in a run that was asked for a rollback of all tables."""
    made = build_context()
    yield made
    made.close()
    made.store.close()
