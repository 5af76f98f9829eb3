"""A node with OpenSearch's security plugin, and a pipeline on it."""
