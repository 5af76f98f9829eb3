"""What is kept in OpenSearch: indices, aliases, state documents and dead letters."""
