"""The demo's tables and what happens to them. Pure data: SQL and words.

The tables stand for the three ways in which Iceberg tables change: `orders` rewrites its files
(copy-on-write), `customers` writes delete files beside them (merge-on-read), `events` only grows.
Each change is one that a replication by rows or by files alone gets wrong:

    UPDATE, copy-on-write     a file with one changed row is new, and all other rows in it are not
    DELETE, merge-on-read     no data file is new, and documents must go
    UPDATE of the partition   a row leaves one file and comes in another: one upsert, no delete
    compaction                all files are new, and no document may be written
    rollback                  the current snapshot is an old one: deleted rows come back
"""

from dataclasses import dataclass
from typing import Any

from icdc_cli.embedded.lake import QUICK_START

ORDERS, CUSTOMERS, EVENTS = "lake.shop.orders", "lake.shop.customers", "lake.shop.events"
TABLES = (ORDERS, CUSTOMERS, EVENTS)

# `orders` has no property for its mode: copy-on-write is the default of Iceberg. Distribution
# `none` spares a shuffle by the partition before each write.

CREATE = (
    "CREATE NAMESPACE IF NOT EXISTS lake.shop",
    f"""
    CREATE TABLE {ORDERS} (
      order_id BIGINT NOT NULL, customer_id BIGINT, country STRING, status STRING,
      total DECIMAL(12, 2), ordered_at TIMESTAMP)
    USING iceberg PARTITIONED BY (country)
    TBLPROPERTIES ('format-version' = '2', 'write.distribution-mode' = 'none')
    """,
    f"ALTER TABLE {ORDERS} SET IDENTIFIER FIELDS order_id",
    f"""
    CREATE TABLE {CUSTOMERS} (customer_id BIGINT NOT NULL, name STRING, tags ARRAY<STRING>)
    USING iceberg
    TBLPROPERTIES ('format-version' = '2', 'write.update.mode' = 'merge-on-read',
      'write.delete.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read')
    """,
    f"ALTER TABLE {CUSTOMERS} SET IDENTIFIER FIELDS customer_id",
    f"""
    CREATE TABLE {EVENTS} (kind STRING, order_id BIGINT, happened_at TIMESTAMP)
    USING iceberg
    """,
)

FILL = (
    f"""
    INSERT INTO {ORDERS}
    SELECT id, id % 20000, element_at(array('NL', 'BE', 'DE', 'FR'), CAST(id % 4 + 1 AS INT)),
      'placed', CAST(id % 90000 / 100 AS DECIMAL(12, 2)), timestamp_seconds(1700000000 + id)
    FROM range(0, 200000, 1, 8)
    """,
    f"""
    INSERT INTO {CUSTOMERS}
    SELECT id, concat('Customer ', id), array('new', concat('group-', id % 7)) FROM range(20000)
    """,
    f"""
    INSERT INTO {EVENTS}
    SELECT 'order-placed', id, timestamp_seconds(1700000000 + id) FROM range(30000)
    """,
)


@dataclass(frozen=True)
class Change:
    """One thing that happens to the tables."""

    title: str
    """What a person reads before it happens, with numbers that the documents then confirm."""
    statements: tuple[str, ...]
    """SQL, in this order; `{start}` is the snapshot of ROLLBACK_TABLE before all changes."""


ROLLBACK_TABLE = CUSTOMERS
"""Its current snapshot before the changes is remembered for the rollback."""

CHANGES = (
    Change(
        "UPDATE of 2,000 orders, which rewrites whole files",
        (f"UPDATE {ORDERS} SET status = 'paid' WHERE order_id % 100 = 7",),
    ),
    Change(
        "DELETE of 500 customers, which writes delete files only",
        (f"DELETE FROM {CUSTOMERS} WHERE customer_id % 40 = 3",),
    ),
    Change(
        "MERGE into customers: 1,000 renamed, 1,000 new",
        (
            f"""
            MERGE INTO {CUSTOMERS} AS c
            USING (SELECT id FROM range(19000, 21000)) AS s ON c.customer_id = s.id
            WHEN MATCHED THEN UPDATE SET c.name = concat('Renamed ', s.id)
            WHEN NOT MATCHED THEN INSERT (customer_id, name, tags)
              VALUES (s.id, concat('Customer ', s.id), array())
            """,
        ),
    ),
    Change(
        "UPDATE of a partition column: 400 orders move from NL to BE",
        (f"UPDATE {ORDERS} SET country = 'BE' WHERE country = 'NL' AND order_id % 500 = 0",),
    ),
    Change(
        "5,000 events are appended",
        (
            f"""
            INSERT INTO {EVENTS}
            SELECT 'order-shipped', id, timestamp_seconds(1700500000 + id) FROM range(5000)
            """,
        ),
    ),
    Change(
        "compaction of orders and customers: every file is new, no document changes",
        (
            "CALL lake.system.rewrite_data_files(table => 'shop.orders', "
            "options => map('rewrite-all', 'true'))",
            "CALL lake.system.rewrite_data_files(table => 'shop.customers', "
            "options => map('rewrite-all', 'true'))",
        ),
    ),
    Change(
        "a column is added, and 100 orders get a value for it",
        (
            f"ALTER TABLE {ORDERS} ADD COLUMN note STRING",
            f"UPDATE {ORDERS} SET note = 'gift' WHERE order_id < 100",
        ),
    ),
    Change(
        "customers are rolled back to where they began",
        ("CALL lake.system.rollback_to_snapshot('shop.customers', {start})",),
    ),
)

# A third of all rows: the batch must last long enough to be killed in the middle on a fast host.
CRASH = Change(
    "UPDATE of 66,667 orders, and the application is killed in the middle of it",
    (f"UPDATE {ORDERS} SET status = 'shipped' WHERE order_id % 3 = 0",),
)


def build_pipeline(url: str, catalog: dict[str, str]) -> dict[str, Any]:
    """Return the resource that the demo applies; `url` is that of OpenSearch."""
    return {
        "apiVersion": "icebergcdc.dev/v1alpha1",
        "kind": "IcebergCDCPipeline",
        "metadata": {"name": "shop"},
        "spec": {
            "catalog": {"name": "lake", "properties": catalog},
            "tables": [
                {"name": "shop.orders", "index": "orders"},
                {"name": "shop.customers", "index": "customers"},
                {"name": "shop.events", "index": "events", "appendOnly": True},
            ],
            # A person watches: the default interval would be most of what there is to see.
            "changelog": {"trigger": "Continuous", "pollIntervalSeconds": 1},
            "sink": {
                "opensearch": {
                    "hosts": [url],
                    # One node never places a replica: with one, all indices would be yellow.
                    "indexSettings": {"number_of_replicas": 0},
                    # Small requests, so that the crash falls between many of them.
                    "bulk": {"maxBytes": 262144},
                },
            },
            "spark": {
                "executor": {"instances": 1, "cores": 2},
                "driver": {"memory": "1g"},
                # A JVM that lives for two minutes is quicker without its second compiler.
                "conf": {"spark.driver.extraJavaOptions": QUICK_START},
            },
            # The application that is killed is replaced at once; this is for all other failures.
            "retry": {"initialSeconds": 1},
        },
    }
