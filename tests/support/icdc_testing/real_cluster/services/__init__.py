"""What runs in or beside the test cluster: spark-operator, catalog, store and OpenSearch."""
