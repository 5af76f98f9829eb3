"""Describe the tables that random histories begin with."""

from dataclasses import dataclass

from icdc_testing.lake.lake import MERGE_ON_READ


@dataclass(frozen=True, kw_only=True)
class TableKind:
    """A table at its beginning."""

    mode: str
    """Copy-on-write or merge-on-read: the mode of Spark's statements."""
    version: int
    """The format version."""
    upgrades: bool = False
    """True if the format version may rise on the way."""
    repeats_keys: bool = False
    """True if several rows may have one key."""

    @property
    def merges_on_read(self) -> bool:
        """True if its writers write delete files, as soon as the format version has them."""
        return self.mode == MERGE_ON_READ
