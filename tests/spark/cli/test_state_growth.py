"""Many batches: nothing that is stored of them, and no process, grows with their number.

Judged by counts and bytes; `make soak-state` goes on for longer and judges slopes.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.bench.state_growth import ChangingTables, Growth
from icdc_testing.target import node_calls

pytestmark = pytest.mark.spark

TABLES = 4
ROUNDS = 7
"""Batches of each table."""
SETTLED = 4
"""After so many the first sample is taken: Spark has as many queries as it retains."""
RETAINED = {"spark.sql.ui.retainedExecutions": "10"}
"""A tenth of what runs retain, so that fewer batches show that there are no more."""
QUERIES = 12
"""That Spark may remember: it forgets some at a time."""
DIGITS = 8
"""Bytes that the numbers of one table's state may grow by: of ordinals, rows and times."""


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[ChangingTables]:
    """Tables that change without end."""
    tables = ChangingTables(tmp_path / "lake", TABLES)
    yield tables
    tables.close()


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
def test_what_is_stored_and_what_runs_does_not_grow_with_the_batches(
    opensearch: OpenSearchNode, changing: ChangingTables, tmp_path: Path
) -> None:
    node_calls.clean_indices(opensearch.url)
    (tmp_path / "runs").mkdir()
    growth = Growth(changing, opensearch.url, tmp_path / "runs", RETAINED)
    with growth.follow(epoch=1) as run:
        for number in range(1, ROUNDS + 1):
            growth.advance()
            if number in (SETTLED, ROUNDS):
                growth.sample(run)
    first, last = growth.samples
    assert (last["states"], last["dead_letters"]) == (TABLES, TABLES)
    assert last["state_bytes"] - first["state_bytes"] <= DIGITS * TABLES
    # A tag that was replaced is removed after the batch: one of each table may be left then.
    assert last["tags"] <= 2 * TABLES
    assert last["sessions"] == first["sessions"]
    # A batch writes the state twice, and OpenSearch merges away what that replaces when it pleases.
    assert last["states_deleted"] < 3 * last["batches"]
    assert last["queries"] <= QUERIES
    assert last["files"] - first["files"] <= TABLES
    with growth.follow(epoch=2) as run:
        run.await_session()
        growth.advance()
    node_calls.clean_indices(opensearch.url)
