"""A Spark SQL prompt for programs: one JSON request per line in, one JSON answer per line out.

The demo and the end-to-end tests change tables through it, in a process of their own: the
application under test must see the commits of a foreign writer, as it does in production. It
knows no pipeline and no index.

    → {"sql": "select 1 as one"}         ← {"rows": [{"one": 1}]}
    → {"sql": "drop table lake.shop.x"}  ← {"rows": []}
    a failed statement                   ← {"error": "[TABLE_OR_VIEW_NOT_FOUND] …"}

It ends when its input does, its JVM before it.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from icdc_spark.iceberg.jvm import session as sessions


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line: the catalog to write to, and Spark's own settings."""
    parser = argparse.ArgumentParser(prog="lakeshell", description=__doc__)
    parser.add_argument("--catalog", default="lake", help="the catalog's name in SQL")
    parser.add_argument(
        "--property", action="append", default=[], metavar="KEY=VALUE", help="a catalog property"
    )
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a Spark property"
    )
    return parser.parse_args(arguments)


def pairs(texts: Sequence[str]) -> dict[str, str]:
    """`["a=b=c"]` as `{"a": "b=c"}`."""
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def answer(spark: SparkSession, request: str) -> str:
    """The answer to one line of input."""
    try:
        rows = [
            row.asDict(recursive=True) for row in spark.sql(json.loads(request)["sql"]).collect()
        ]
    except PySparkException as error:
        return json.dumps({"error": str(error).strip().partition("\n")[0]})
    return json.dumps({"rows": rows}, default=str)


def serve(spark: SparkSession, requests: TextIO, answers: TextIO) -> None:
    """Answers until the input ends; `{"ready": true}` comes first."""
    answers.write('{"ready": true}\n')
    answers.flush()
    for line in requests:
        answers.write(answer(spark, line) + "\n")
        answers.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves stdin; Spark's own output goes to stderr."""
    options = parse(arguments)
    builder = SparkSession.builder.master("local[2]")
    for key, value in pairs(options.conf).items():
        builder = builder.config(key, value)
    for key, value in sessions.APPLICATION_CONF.items():
        builder = builder.config(key, value)
    application = builder.getOrCreate()
    application.sparkContext.setLogLevel("ERROR")
    spark = sessions.create_table_session(application, options.catalog, pairs(options.property))
    serve(spark, sys.stdin, sys.stdout)
    stop(application)
    return 0


def stop(application: SparkSession) -> None:
    """Ends Spark and returns when its JVM is gone, which would else outlive this process."""
    gateway: Any = application.sparkContext._gateway
    application.stop()
    gateway.shutdown()
    # It ends itself at the end of its input.
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    sys.exit(main())
