"""Which properties the session of a local run has, and which collector its JVM."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from icdc_api.spec.spark import Spark
from icdc_api.spec.spark_defaults import DEFAULT_CONF
from icdc_cli.local import application

pytestmark = pytest.mark.spark

ENTRIES = "spark.sql.codegen.cache.maxEntries"
NEEDED = "spark.sql.constraintPropagation.enabled"
"""What the application sets, whatever a pipeline says."""
ASK = f"""
import json
from icdc_spark.iceberg.jvm.session import create_application_session
session = create_application_session("properties")
beans = session._jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
collectors = [str(each.getName()) for each in beans]
print(json.dumps([session.conf.get("{ENTRIES}"), session.conf.get("{NEEDED}"), collectors]))
session.stop()
"""


@pytest.mark.parametrize(
    ("conf", "entries", "collector"),
    [
        ({}, DEFAULT_CONF[ENTRIES], "PS Scavenge"),
        (
            {ENTRIES: "7", NEEDED: "true", "spark.driver.extraJavaOptions": "-XX:+UseG1GC"},
            "7",
            "G1 Young Gen",
        ),
    ],
    ids=["ours", "the pipeline's"],
)
def test_what_a_pipeline_says_goes_over_defaults_and_under_what_is_needed(
    conf: dict[str, str], entries: str, collector: str, tmp_path: Path
) -> None:
    installed = application.installed()
    env = application.environment(
        installed, Spark(conf=conf), scratch=tmp_path, marker="properties"
    )
    done = subprocess.run(
        [installed.python, "-c", ASK], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answer: list[Any] = json.loads(done.stdout)
    assert answer[:2] == [entries, "false"]
    assert collector in " ".join(answer[2])
