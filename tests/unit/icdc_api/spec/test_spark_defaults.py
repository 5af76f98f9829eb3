"""What runs get of Spark's properties where a pipeline says nothing."""

from typing import Any

import pytest

from icdc_api.spec.spark import Spark
from icdc_api.spec.spark_defaults import (
    COLLECTOR,
    DEFAULT_CONF,
    QUICK_COMPILER,
    build_defaults,
)

pytestmark = pytest.mark.unit

DRIVER, EXECUTOR = "spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions"
BOTH = {DRIVER, EXECUTOR}


def _make_template(value: str) -> dict[str, Any]:
    variable = {"name": "JAVA_TOOL_OPTIONS", "value": value}
    return {"spec": {"containers": [{"name": "main", "env": [variable]}]}}


@pytest.mark.parametrize(
    ("said", "java_options", "ours"),
    [
        ({}, [], BOTH),
        ({}, ["", "-Xss4m -XX:-UseG1GC -XX:+UseGCOverheadLimit"], BOTH),
        ({}, ["-Da=1 -XX:+UseG1GC"], set()),
        ({"conf": {"spark.driver.extraJavaOptions": "-XX:+UseZGC -Da=1"}}, [], {EXECUTOR}),
        ({"conf": {"spark.executor.extraJavaOptions": "-XX:+UseSerialGC"}}, [], {DRIVER}),
        ({"conf": {"spark.executor.extraJavaOptions": "-Da=1"}}, [], BOTH),
        ({"driver": {"template": _make_template("-XX:+UseShenandoahGC")}}, [], {EXECUTOR}),
        ({"executor": {"template": _make_template("-XX:+UseG1GC")}}, [], {DRIVER}),
        ({"executor": {"template": _make_template("-Xss4m")}}, [], BOTH),
    ],
)
def test_a_jvm_for_which_nobody_names_a_collector_gets_ours(
    said: dict[str, Any], java_options: list[str], ours: set[str]
) -> None:
    result = build_defaults(Spark.model_validate(said), *java_options)
    assert result == {**DEFAULT_CONF, **dict.fromkeys(ours, COLLECTOR)}


@pytest.mark.parametrize(
    ("java_options", "ours"),
    [([], f"{QUICK_COMPILER} {COLLECTOR}"), (["-XX:+UseG1GC"], QUICK_COMPILER)],
)
def test_a_run_that_is_expected_to_be_short_does_not_optimise_code(
    java_options: list[str], ours: str
) -> None:
    result = build_defaults(Spark(), *java_options, short=True)
    assert result == {**DEFAULT_CONF, **dict.fromkeys(BOTH, ours)}
