from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_cli.embedded import class_data

pytestmark = pytest.mark.spark


def test_the_jvm_of_spark_has_mapped_the_archive(spark: SparkSession) -> None:
    gateway: Any = spark.sparkContext._gateway
    # A JVM that finds that an archive does not fit goes on without it and does not map it.
    assert (
        str(class_data.build_archive_path()) in Path(f"/proc/{gateway.proc.pid}/maps").read_text()
    )
