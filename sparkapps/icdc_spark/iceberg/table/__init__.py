"""A table and its snapshots: loading, schemas, tags, and rows staged for a scan."""
