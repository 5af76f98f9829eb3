"""Fixtures that set how queries run in the tests of the source side."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_spark.diff import key_bitmaps
from icdc_testing.runs.spark_conf import UNCOMPILED

_INTERPRETED = {**UNCOMPILED, "spark.sql.shuffle.partitions": "1"}
_AS_IN_PRODUCTION = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "3",
}


@contextmanager
def _apply_settings(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {key: session.conf.get(key) for key in settings}
    for key, value in settings.items():
        session.conf.set(key, value)
    yield
    for key, old in before.items():
        session.conf.set(key, str(old))


@pytest.fixture(autouse=True)
def quick_queries(spark: SparkSession) -> Iterator[None]:
    """Run queries interpreted, so that they start quickly. No assertion depends on it."""
    with _apply_settings(spark, _INTERPRETED):
        yield


@pytest.fixture
def whole_stage_codegen(spark: SparkSession, quick_queries: None) -> Iterator[None]:
    """Run queries as in production: compiled, with adaptive execution."""
    with _apply_settings(spark, _AS_IN_PRODUCTION):
        yield


@pytest.fixture
def bitmap_trials(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """List the batches that tried bitmaps: True where these showed what differs."""
    compare, trials = key_bitmaps.compare_keys, list[bool]()

    def record(*arguments: Any, **more: Any) -> key_bitmaps.KeyComparison | None:
        compared = compare(*arguments, **more)
        trials.append(compared is not None)
        return compared

    monkeypatch.setattr(key_bitmaps, "compare_keys", record)
    return trials


@pytest.fixture
def collected_late() -> Iterator[None]:
    """Python collects no cycles by itself: what waits for that stays to be counted."""
    gc.disable()
    yield
    gc.enable()
