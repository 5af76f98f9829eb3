"""What is modelled: OpenSearch, the way to it, the catalog."""
