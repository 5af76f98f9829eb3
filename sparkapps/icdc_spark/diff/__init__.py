"""Compare two snapshots: from a plan by files to bulk operations, one per document.

Knows readers and documents, and nothing of indices, state or runs.
"""
