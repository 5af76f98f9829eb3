"""What scenarios of whole pipelines share: a clean node for a module, and one proxy in front."""

import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.tables.playing import Stages, play_scenarios
from icdc_testing.tables.scenarios import Scenario
from icdc_testing.target import node_calls

Play = Callable[..., Stages]


@pytest.fixture(scope="module")
def play(
    opensearch: OpenSearchNode, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Play]:
    """Returns what plays scenarios on a node that is clean before and after the module."""
    node_calls.clean_indices(opensearch.url)
    folder: Path = tmp_path_factory.mktemp("scenarios")

    def play_here(scenarios: Sequence[Scenario], **spec: Any) -> Stages:
        with warnings.catch_warnings():
            # pyspark leaves the sockets over which it collects to the garbage collector.
            warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
            played = play_scenarios(scenarios, spark, opensearch.url, folder, **spec)
            gc.collect()
        return played

    yield play_here
    node_calls.clean_indices(opensearch.url)
