"""Ten tables in one application, eight of which misbehave at once: nothing changes for the rest.

Judged by documents and bytes, beside the same tables without a fault. Times are measured by
`make bench-isolation`.
"""

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.tables.misbehaving import FAULTS
from icdc_testing.tables.side_by_side import Played, SideBySide
from icdc_testing.target import node_calls

pytestmark = pytest.mark.spark

ROWS = 60
"""That each table gets; ten of before are deleted or updated."""
PROGRESS_SECONDS = 20.0
"""Longer than a run waits for the requests of the one before it, and than a busy host takes for a
step of a table that is healthy: one that was cancelled would be repeated."""


@pytest.fixture(autouse=True, scope="module")
def quick_waits() -> None:
    """Nothing: requests are abandoned here."""


@pytest.fixture(scope="module")
def played(
    spark: SparkSession,
    lake: Lake,
    opensearch: OpenSearchNode,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Played, Played]]:
    """Both applications: without faults, and with all of them."""
    folder: Path = tmp_path_factory.mktemp("isolation")
    with FaultProxy(opensearch.url) as proxy:
        with warnings.catch_warnings():
            # pyspark leaves the sockets over which it collects to the garbage collector.
            warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
            tables = SideBySide(
                lake,
                proxy,
                folder,
                healthy=2,
                faults=[*FAULTS],
                rows=ROWS,
                progress_seconds=PROGRESS_SECONDS,
                slow_seconds=1.0,
            )
            both = tables.play(faults=False), tables.play(faults=True)
            gc.collect()
        yield both
    node_calls.clean_indices(opensearch.url)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_table_that_misbehaves_says_why(played: tuple[Played, Played], fault: str) -> None:
    alone, beside = played
    reason = FAULTS[fault].reason
    assert alone.reasons[fault] == set()
    assert reason is None or reason in beside.reasons[fault]


def test_the_others_are_written_as_if_they_were_alone(played: tuple[Played, Played]) -> None:
    alone, beside = played
    assert len(alone.documents) == 2 * (ROWS + 10)
    assert beside.documents == alone.documents
    assert beside.document_bytes == alone.document_bytes
    # Each is written once.
    assert set(beside.documents.values()) == {1}


def test_the_others_report_the_batches_that_they_would_report_alone(
    played: tuple[Played, Played],
) -> None:
    alone, beside = played
    assert beside.reported == alone.reported
