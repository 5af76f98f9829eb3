"""An export as a user writes it without the operator: a Spark job with `parallel_bulk`.

    PYTHONPATH=tests/support python -m icdc_testing.bench.plain_export --url … --table … --index …

Writes a line once it has a session, and goes on after a line on its standard input, so that its
start can be measured apart; it writes another line when the index is complete, and ends after one
more. The index is set up as OpenSearch's own pages advise for a first load: no refresh, no replica.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from opensearchpy import OpenSearch

from icdc_testing.bench.plain_writers import send_parallel, write_rows
from icdc_testing.bench.session import start_bench_session

SETTINGS = {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "-1"}
CATALOG = "lake"


def main() -> int:
    """Write all rows of the table into a new index."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--index", required=True)
    parser.add_argument("--catalog", required=True, help="its properties, as JSON")
    parser.add_argument("--memory", default="2g")
    options = parser.parse_args()
    prefix = f"spark.sql.catalog.{CATALOG}"
    conf = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{prefix}.{key}": value for key, value in json.loads(options.catalog).items()},
    }
    with tempfile.TemporaryDirectory(prefix="icdc-plain-") as folder:
        spark = start_bench_session("export", Path(folder), memory=options.memory, conf=conf)
        _meet("started")
        client = OpenSearch([options.url], timeout=60)
        client.indices.create(index=options.index, body={"settings": SETTINGS})
        rows = spark.table(f"{CATALOG}.{options.table}")
        write_rows(rows, options.url, options.index, 1, send_parallel)
        client.indices.refresh(index=options.index)
        _meet("written")
        client.close()
        spark.stop()
    return 0


def _meet(word: str) -> None:
    """Say how far the job is, and wait until the reader has taken note."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()
    sys.stdin.readline()


if __name__ == "__main__":
    raise SystemExit(main())
