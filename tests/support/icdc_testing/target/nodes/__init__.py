"""Several OpenSearch nodes of one cluster, each in a network namespace of its own."""
