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
KEY = "spark.hadoop.fs.s3a.secret.key"
SECRET = "Zq9=/+:#! \\n \\ é日 \n\t'\"$x"
"""With every character that a file of properties, a shell or a command line could take for its
own."""
ASK = f"""
import json
from icdc_spark.iceberg.jvm.session import create_application_session
session = create_application_session("properties")
beans = session._jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
collectors = [str(each.getName()) for each in beans]
pid = int(session._jvm.java.lang.ProcessHandle.current().pid())
commands = open(f"/proc/{{pid}}/cmdline").read()
key = session.sparkContext._jsc.hadoopConfiguration().get("{KEY}".removeprefix("spark.hadoop."))
read = [session.conf.get("{ENTRIES}"), session.conf.get("{NEEDED}"), collectors, key, commands]
print(json.dumps(read))
session.stop()
"""


@pytest.mark.parametrize(
    ("conf", "entries", "collector"),
    [
        ({}, DEFAULT_CONF[ENTRIES], "PS Scavenge"),
        (
            {
                ENTRIES: "7",
                NEEDED: "true",
                KEY: SECRET,
                "spark.driver.extraJavaOptions": "-XX:+UseG1GC",
            },
            "7",
            "G1 Young Gen",
        ),
    ],
    ids=["ours", "the pipeline's"],
)
def test_what_a_pipeline_says_goes_over_defaults_and_under_what_is_needed(
    conf: dict[str, str], entries: str, collector: str, tmp_path: Path
) -> None:
    installed = application.find_installed()
    env = application.build_environment(
        installed, Spark(conf=conf), scratch=tmp_path, marker="properties"
    )
    done = subprocess.run(
        [installed.python, "-c", ASK], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answer: list[Any] = json.loads(done.stdout)
    assert answer[:2] == [entries, "false"]
    assert collector in " ".join(answer[2])
    assert answer[3] == conf.get(KEY)
    # Any user of the host may list the processes, and read what anybody may read.
    assert "Zq9" not in answer[4]
    assert (tmp_path / "spark.properties").stat().st_mode & 0o077 == 0
