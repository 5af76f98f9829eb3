"""All that speaks to OpenSearch from the Spark application, on the driver and on the executors.

Nothing outside this package imports opensearchpy. It must not know Iceberg: it is handed
operations as ready NDJSON lines, and names of tables and snapshots only to label what it stores.
"""
