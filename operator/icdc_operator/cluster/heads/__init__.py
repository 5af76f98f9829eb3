"""Table heads: asks catalogs with pyiceberg whether a table has a new snapshot, metadata only.

`reader` is a process of its own, with a child for each catalog: what a catalog answers, and what
never comes, ends at most that child. The rest is the operator's side.
"""
