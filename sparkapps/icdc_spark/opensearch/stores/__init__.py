"""The stores in OpenSearch: indices, aliases, state documents and dead letters."""
