"""Match the documents of an index with the rows of a snapshot, as digests of both.

Stands below replication, which proves a new index before readers get it, and verification, which
compares the one that they have. It was moved down rather than handed up as a callback: so no run
can be put together that lacks the proof.
"""
