"""Real OpenSearch nodes, the independent oracle, and state documents."""
