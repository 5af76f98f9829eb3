"""The `icdc` command: arguments in, text and exit codes out.

One module for each command; none of them decides what a pipeline needs or speaks to Spark,
Iceberg or OpenSearch itself.
"""
