"""Build what a row becomes: its document, its id, its fingerprint, and the mapping of the index.

Decided by Iceberg types and field ids. Nothing here knows where rows come from, or speaks to
OpenSearch.
"""
