"""Read groups of data files as data frames in the schema of one snapshot.

Two readers behind one protocol: Spark's own Iceberg reader, and one by pyarrow for tables with
columns that Spark has no type for.
"""
