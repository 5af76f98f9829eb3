"""One core for OpenSearch and one for its clients, so that neither takes time from the other.

On shared cores a client that needs half of the server's time makes the server slower by as much,
and a figure of one says something about both. It must not know what is measured.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from icdc_cli.embedded.opensearch_node import OpenSearchNode

HEAP = "2g"
"""Of the node; a tenth of it is for documents that are in no segment yet."""


@contextmanager
def start_pinned_node(
    folder: Path, *, heap: str = HEAP, settings: Mapping[str, str] | None = None
) -> Iterator[OpenSearchNode]:
    """Run a node on the first core; this process, with what it starts later, has the second.

    SystemExit where this process may use one core only.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise SystemExit("two cores are needed: one for OpenSearch and one for its clients")
    first, second = {allowed[0]}, {allowed[1]}
    node = OpenSearchNode(folder, heap=heap, settings=settings, quick_start=False)
    # A process inherits the cores of the thread that starts it, and so do all its threads.
    os.sched_setaffinity(0, first)
    try:
        node.start()
        os.sched_setaffinity(0, second)
        yield node
    finally:
        node.stop()
        os.sched_setaffinity(0, allowed)
