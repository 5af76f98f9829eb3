"""Choose how many histories are played, and of which kinds of tables.

A query costs as much for ten rows as for ten thousand, so where many are played, more are evaluated
together.
"""

import os

from icdc_testing.lake.lake import COPY_ON_WRITE, MERGE_ON_READ
from icdc_testing.tables.histories.kinds import TableKind

TOGETHER = {"plain": 10, "all-types": 5, "not-for-spark": 5}
"""How many histories are evaluated together at least, by the columns that they have."""
STREAMS, REPEATED = 8, 5
"""Likewise of streams, which come in two kinds, and of repeated keys."""
_ROUND = sum(TOGETHER.values()) + 2 * STREAMS + REPEATED
_WANTED = int(os.environ.get("ICDC_HISTORIES") or 500)
TIMES = min(5, max(1, _WANTED // _ROUND))
"""How many times as many are evaluated together."""
ROUNDS = range(-(-_WANTED // (_ROUND * TIMES)))
"""Of all kinds; together they play ICDC_HISTORIES or a few more."""

KINDS = (
    TableKind(mode=COPY_ON_WRITE, version=1),
    TableKind(mode=MERGE_ON_READ, version=1, upgrades=True),
    TableKind(mode=COPY_ON_WRITE, version=2),
    TableKind(mode=MERGE_ON_READ, version=2, upgrades=True),
    TableKind(mode=MERGE_ON_READ, version=3),
)
