"""The border between operator and application: the request and the report of a run."""
