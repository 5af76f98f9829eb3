"""Table heads: asks catalogs with pyiceberg whether a table has a new snapshot, metadata only.

A catalog that hangs costs a thread, never the operator.
"""
