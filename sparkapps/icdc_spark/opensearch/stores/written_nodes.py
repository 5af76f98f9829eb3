"""Holds the nodes of the cluster that requests of a process may be inside.

In memory alone: what must outlive the process is in the state document, where
`icdc_spark.replication.checks.node_check` records it.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from icdc_spark.opensearch.stores.identity import Identity

NODES_SECONDS = 60.0
"""Nodes are not asked for more often: what is known of them may be so old."""


@dataclass
class WrittenNodes:
    """The nodes of the cluster that requests of this process may be inside.

    Each by its id, with the mark of its process.
    """

    members: dict[str, int] = field(default_factory=dict)
    """Those that were in the cluster when they were last listed."""
    absent: dict[str, int] = field(default_factory=dict)
    """Those that left with a batch; until the document records them."""
    primaries: tuple[str, ...] = ()
    """Where the primaries were when the batch began."""
    listed_at: float | None = None
    """When nodes were last listed, by the monotonic clock; None if they must be before a batch."""
    reconsidered_at: float | None = None
    """When absent nodes were last asked for, by the same clock."""
    warned: bool = False
    """True once the log says that nodes may not be listed."""

    def list_anew(self, processes: Mapping[str, int]) -> None:
        """Note the nodes in the cluster; nothing where one of them did not answer."""
        if processes:
            self.members, self.listed_at = dict(processes), time.monotonic()

    def see(self, identity: Identity) -> None:
        """Note where the primaries are before a batch begins."""
        self.primaries = identity.primaries
        # Not where none could be listed, which is not asked for at each batch.
        if self.members and not self.members.keys() >= set(identity.primaries):
            # One has joined since.
            self.listed_at = None

    def note_absent(self, expected: Mapping[str, int], absent: Iterable[str]) -> None:
        """Note which of the expected nodes have left the cluster."""
        for node in absent:
            self.absent[node] = expected[node]
            self.members.pop(node, None)
            # It may be back before the next batch, as another process.
            self.listed_at = None


def is_stale(read_at: float | None) -> bool:
    """Return whether what was read then, by the monotonic clock, has to be read again."""
    return read_at is None or time.monotonic() - read_at > NODES_SECONDS
