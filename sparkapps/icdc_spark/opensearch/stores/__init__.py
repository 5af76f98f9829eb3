"""What is stored in OpenSearch: indices, aliases, state documents and dead letters."""
