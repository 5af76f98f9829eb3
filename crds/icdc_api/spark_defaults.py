"""What every run gets of Spark's properties where `spec.spark.conf` says nothing.

What the application needs in any case does not stand here: that it sets itself, and nobody may
change it. Must not know where a run runs.
"""

import json
import re
from collections.abc import Mapping

from icdc_api.spark import Spark

DEFAULT_CONF: Mapping[str, str] = {
    # A batch has some twenty pieces of generated code, others for each shape of table. Spark keeps
    # 100: from the fifth table on every batch would compile all of its own again.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # A small map in front of the one in which rows are grouped pays where few keys come often. Rows
    # are grouped by their ids here, of which nearly all come once or twice.
    "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
}

COLLECTOR = "-XX:+UseParallelGC -XX:NewRatio=4"
"""Runs want throughput, and no answer of theirs is waited for. The JVM's own choice, G1, marks the
heap beside the work, again and again for the large pages in which Spark groups rows. Four fifths of
the heap are for what stays, as the row groups of files that are read must find room there."""

_ANY_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")


def build_defaults(spark: Spark, *java_options: str) -> dict[str, str]:
    """The properties by key; `spec.spark.conf` goes over them.

    `java_options` are what JVMs are told from elsewhere. A JVM that is told two collectors does not
    start, so a role for which somebody names one gets none of ours.
    """
    conf = dict(DEFAULT_CONF)
    for role, template in (
        ("driver", spark.driver.template),
        ("executor", spark.executor.template),
    ):
        given_options = (*java_options, spark.conf.get(f"spark.{role}.extraJavaOptions", ""))
        if not any(map(_ANY_COLLECTOR.search, (*given_options, json.dumps(template)))):
            conf[f"spark.{role}.defaultJavaOptions"] = COLLECTOR
    return conf
