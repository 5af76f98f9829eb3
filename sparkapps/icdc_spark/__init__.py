"""The Spark application: plan, diff, documents, sink, progress.

It moves rows from Iceberg to OpenSearch and records how far it got; it knows nothing of how it
was launched, and never imports the operator.
"""
