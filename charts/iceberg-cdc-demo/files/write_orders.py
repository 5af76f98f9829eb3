"""Creates the table shop.orders, and goes on changing it: the writer of the demo.

Each commit is one of three, in turn: orders are placed, some are paid for, the oldest are removed.
So the table does not grow. At first it waits for the lake; later a lake that does not answer ends
the program, Kubernetes starts it again, and it goes on with the table that is there.
"""

import argparse
import datetime
import itertools
import pathlib
import random
import sys
import time
from decimal import Decimal

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import RESTError
from pyiceberg.table import Table

TABLE = "shop.orders"
SCHEMA = pa.schema(
    [
        pa.field("order_id", pa.int64(), nullable=False),
        pa.field("customer", pa.string()),
        pa.field("status", pa.string()),
        pa.field("total", pa.decimal128(9, 2)),
        pa.field("placed_at", pa.timestamp("us", tz="UTC")),
    ]
)
START_SECONDS = 300.0
"""How long the lake may take until it answers."""
BATCH = 20
"""Orders of one commit."""
MAX_AGE = datetime.timedelta(minutes=10)
"""Of snapshots; a tag of a pipeline keeps the one that it has applied for longer."""
CUSTOMERS = ("Ada", "Bo", "Chidi", "Dana", "Emre", "Fatou")


def open_catalog(options: argparse.Namespace) -> Catalog:
    """Return the catalog of the demo, with the properties in the mounted Secret."""
    secret = {path.name: path.read_text() for path in options.secret.iterdir() if path.is_file()}
    return load_catalog(
        "lake",
        **{
            "type": "rest",
            "uri": options.catalog,
            "warehouse": "s3://lake",
            "oauth2-server-uri": f"{options.catalog}/v1/oauth/tokens",
            "s3.endpoint": options.store,
            "s3.region": "us-east-1",
            **secret,
        },
    )


def say(what: str) -> None:
    """Print a line into the log of the pod, at once."""
    sys.stdout.write(f"{TABLE}: {what}\n")
    sys.stdout.flush()


def make_orders(first: int, count: int) -> pa.Table:
    """Return new orders with ids from `first` on."""
    now = datetime.datetime.now(datetime.UTC)
    rows = [
        {
            "order_id": number,
            "customer": random.choice(CUSTOMERS),
            "status": "placed",
            "total": Decimal(random.randrange(100, 100_000)) / 100,
            "placed_at": now,
        }
        for number in range(first, first + count)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def read_ids(table: Table) -> list[int]:
    """Return the ids of all orders, oldest first."""
    ids = table.scan(selected_fields=("order_id",)).to_arrow()["order_id"]
    return sorted(ids.to_pylist())


def open_table(catalog: Catalog, orders: int) -> Table:
    """Return the table; created with its first orders if it is not there."""
    catalog.create_namespace_if_not_exists("shop")
    properties = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "10",
    }
    table = catalog.create_table_if_not_exists(TABLE, SCHEMA, properties=properties)
    if table.current_snapshot() is None:
        table.append(make_orders(1, orders))
        say(f"{orders} orders")
    return table


def wait_for_table(options: argparse.Namespace) -> Table:
    """Return the table once the lake answers; the pods of the demo start at the same time."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return open_table(open_catalog(options), options.orders)
        except (OSError, RESTError) as error:
            if time.monotonic() > deadline:
                raise
            say(f"not yet: {type(error).__name__}")
            time.sleep(1.0)


def add(table: Table) -> str:
    """Append new orders."""
    ids = read_ids(table)
    table.append(make_orders(ids[-1] + 1 if ids else 1, BATCH))
    return f"{BATCH} placed"


def pay(table: Table) -> str:
    """Change the status of the orders that were placed last. They are in one file, or few."""
    newest = read_ids(table)[-BATCH:]
    rows = table.scan(row_filter=f"order_id >= {newest[0]}").to_arrow().to_pylist()
    paid = pa.Table.from_pylist([{**row, "status": "paid"} for row in rows], SCHEMA)
    changed = table.upsert(paid, join_cols=["order_id"]).rows_updated
    return f"{changed} paid"


def remove(table: Table) -> str:
    """Delete as many of the oldest orders as `add` appends."""
    oldest = read_ids(table)[:BATCH]
    table.delete(f"order_id <= {oldest[-1]}")
    return f"{len(oldest)} removed"


def expire(table: Table) -> None:
    """Expire the snapshots that are too old; the catalog would grow with them."""
    past = datetime.datetime.now(datetime.UTC) - MAX_AGE
    # Read anew, for the tags that a pipeline has set since.
    if table.refresh().snapshots()[0].timestamp_ms < past.timestamp() * 1000:
        table.maintenance.expire_snapshots().older_than(past).commit()


def main() -> None:
    """Write until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--catalog", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--secret", required=True, type=pathlib.Path)
    parser.add_argument("--seconds", required=True, type=float)
    parser.add_argument("--orders", required=True, type=int)
    parser.add_argument("--ready", required=True, type=pathlib.Path)
    options = parser.parse_args()
    table = wait_for_table(options)
    options.ready.touch()
    for change in itertools.cycle((add, pay, remove)):
        time.sleep(options.seconds)
        say(change(table))
        expire(table)


if __name__ == "__main__":
    main()
