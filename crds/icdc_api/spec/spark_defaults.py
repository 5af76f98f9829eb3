"""Default Spark properties of every run, which `spec.spark.conf` overrides.

The application sets what it always needs, and nobody may change that: it is not here. Must not know
where a run takes place.
"""

import json
import re
from collections.abc import Mapping

from icdc_api.spec.spark import Spark

DEFAULT_CONF: Mapping[str, str] = {
    # A batch has about twenty generated classes, different ones for each table schema. Spark caches
    # 100: from the fifth table on every batch would compile all of its classes again.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # The JVM never compiles a method of more than 8,000 bytes. Spark would let one grow to 65,535,
    # as it does where a table has 70 to 100 columns: each row then costs a third more. Beyond this
    # limit it splits what it generates.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # The first-level map of aggregations pays off where few keys are frequent. Here rows are
    # grouped by their ids, nearly all of which occur once or twice.
    "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
    # Spark keeps each query with its plan for its pages, 0.15 MB for a batch of a small table. By
    # its own default, 1,000, ended batches would take a tenth of the default heap and more.
    "spark.sql.ui.retainedExecutions": "100",
    # A Python worker has one batch of rows while it reads the next. By Spark's default, 64 MiB,
    # that is nearly all of its memory where documents are large; smaller ones take no more time.
    "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
    # A task of a cancelled job that does not end keeps its core. Its executor ends itself then, and
    # another one comes; which thread hangs where is in its log.
    "spark.task.reaper.enabled": "true",
    "spark.task.reaper.killTimeout": "120s",
}

COLLECTOR = "-XX:+UseParallelGC -XX:NewRatio=4"
"""Runs want throughput, and no answer of theirs is waited for. The JVM's own choice, G1, marks the
heap beside the work, again and again for the large pages in which Spark groups rows. Four fifths of
the heap are for what stays, as the row groups of files that are read must find room there."""

QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""For runs that end soon: the optimising compiler of the JVM works beside the run for longer than
what it compiles is used. docs/benchmarks.md has what it saves, and what it costs a long run.
Without the second option the JVM has room for 48 MB of code in place of 240, and Spark fills it."""

# Also in templates, where JAVA_TOOL_OPTIONS may name one.
_ANY_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")


def build_defaults(spark: Spark, *java_options: str, short: bool = False) -> dict[str, str]:
    """Return the properties by key.

    `java_options`: options of JVMs from other places. A JVM with two collectors does not start, so
    a role for which one is named anywhere gets none of ours.

    `short`: the run is expected to end within a minute.
    """
    conf = dict(DEFAULT_CONF)
    for role, template in (
        ("driver", spark.driver.template),
        ("executor", spark.executor.template),
    ):
        options = (*java_options, spark.conf.get(f"spark.{role}.extraJavaOptions", ""))
        ours = [QUICK_COMPILER] if short else []
        if not any(map(_ANY_COLLECTOR.search, (*options, json.dumps(template)))):
            ours.append(COLLECTOR)
        if ours:
            conf[f"spark.{role}.defaultJavaOptions"] = " ".join(ours)
    return conf
