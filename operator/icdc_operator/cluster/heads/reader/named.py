"""Leave pyiceberg with the pointer of the newest metadata, before it reads and parses that.

Part 3 of `reader`: read. pyiceberg has no call that stops there, so an exception does.
"""

from collections.abc import Callable

from icdc_operator.cluster.heads.reader.branches import Heads


class MetadataPointer(Exception):  # noqa: N818 - no error: the answer of a catalog
    """The pointer of a table's newest metadata, and a function that reads its branches."""

    def __init__(self, pointer: str, read: Callable[[], Heads]) -> None:
        super().__init__()
        self.pointer = pointer
        self.read = read
