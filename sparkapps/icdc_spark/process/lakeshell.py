"""Runs Spark SQL for programs: one JSON request per line in, one JSON answer per line out.

The demo and the end-to-end tests change tables through it, in a process of their own: the
application under test must see the commits of another writer, as it does in production. It must
know no pipeline and no index.

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
    """Parse the command line: the catalog to write to, and Spark's own settings."""
    parser = argparse.ArgumentParser(prog="lakeshell", description=__doc__)
    parser.add_argument("--catalog", default="lake", help="the catalog's name in SQL")
    parser.add_argument(
        "--property", action="append", default=[], metavar="KEY=VALUE", help="a catalog property"
    )
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a Spark property"
    )
    return parser.parse_args(arguments)


def split_pairs(texts: Sequence[str]) -> dict[str, str]:
    """Split `["a=b=c"]` into `{"a": "b=c"}`."""
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def run_statement(spark: SparkSession, request: str) -> str:
    """Run the statement of one line of input; return its rows or its error as one line."""
    try:
        rows = [
            row.asDict(recursive=True) for row in spark.sql(json.loads(request)["sql"]).collect()
        ]
    except PySparkException as error:
        # The first line names the condition; the others hold the plan or the JVM's stack.
        return json.dumps({"error": str(error).strip().partition("\n")[0]})
    # As text: decimals, dates and bytes have no form in JSON.
    return json.dumps({"rows": rows}, default=str)


def serve(spark: SparkSession, requests: TextIO, answers: TextIO) -> None:
    """Answer line by line until the input ends; `{"ready": true}` comes first."""
    answers.write('{"ready": true}\n')
    answers.flush()
    for line in requests:
        answers.write(run_statement(spark, line) + "\n")
        answers.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve stdin; Spark's own output goes to stderr."""
    options = parse(arguments)
    builder = SparkSession.builder.master("local[2]")
    for key, value in split_pairs(options.conf).items():
        builder = builder.config(key, value)
    # After the caller's: the application's own settings win, as they do in a run.
    for key, value in sessions.APPLICATION_CONF.items():
        builder = builder.config(key, value)
    application = builder.getOrCreate()
    application.sparkContext.setLogLevel("ERROR")
    spark = sessions.create_table_session(
        application, options.catalog, split_pairs(options.property)
    )
    serve(spark, sys.stdin, sys.stdout)
    stop(application)
    return 0


def stop(application: SparkSession) -> None:
    """End Spark, and return when its JVM has ended: it could outlive this process."""
    gateway: Any = application.sparkContext._gateway
    application.stop()
    gateway.shutdown()
    # The JVM ends itself at the end of its input.
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    sys.exit(main())
