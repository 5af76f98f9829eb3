"""The spec of a pipeline, part by part: catalog, tables, sink, Spark, and what each may hold."""
