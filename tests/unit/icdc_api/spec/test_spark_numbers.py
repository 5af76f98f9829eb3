"""Numbers in spec.spark.conf that Spark takes, and cannot work with."""

import pytest
from pydantic import ValidationError

from icdc_api.spec.spark import Spark

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        *(("spark.task.cpus", value, "of at least 1") for value in ("0", "-1", "abc", "1.5", "")),
        ("spark.task.cpus", "3", "at most spec.spark.executor.cores, which is 2"),
        ("spark.task.maxFailures", "0", "of at least 1"),
        ("spark.default.parallelism", "0", "of at least 1"),
        ("spark.default.parallelism", "abc", "of at least 1"),
        *(
            ("spark.kubernetes.executor.request.cores", value, "a number of CPUs")
            for value in ("-1", "abc", "1.5m", "")
        ),
        *(
            (f"spark.kubernetes.{role}.limit.cores", value, "above 0")
            for role, value in (("driver", "0"), ("executor", "0m"))
        ),
    ],
)
def test_a_number_that_spark_cannot_work_with_is_refused_with_what_is_allowed(
    key: str, value: str, why: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        Spark(conf={key: value})
    (error,) = caught.value.errors()
    assert error["ctx"]["field"] == ("conf", key)
    assert error["msg"].startswith(f"{value!r} is not allowed: it must be ")
    assert why in error["msg"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.task.cpus", "2"),
        ("spark.task.maxFailures", "1"),
        ("spark.kubernetes.driver.request.cores", "0.5"),
        # No share of a CPU is reserved, as on a laptop: Kubernetes allows it.
        ("spark.kubernetes.executor.request.cores", "0"),
        ("spark.kubernetes.driver.limit.cores", "1500m"),
    ],
)
def test_a_number_that_spark_can_work_with_is_allowed(key: str, value: str) -> None:
    assert Spark(conf={key: value}).conf == {key: value}
