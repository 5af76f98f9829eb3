"""How a catalog's answer leaves pyiceberg before its metadata is understood."""

from collections.abc import Callable

from icdc_operator.cluster.heads.reader.branches import Heads


class MetadataPointer(Exception):  # noqa: N818 - no error: the answer of a catalog
    """What names the newest metadata of a table, and how to read its branches."""

    def __init__(self, pointer: str, read: Callable[[], Heads]) -> None:
        super().__init__()
        self.pointer = pointer
        self.read = read
