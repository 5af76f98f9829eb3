"""The facts of a table for `icdc doctor`, apart from the reader: judging needs no pyiceberg."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class TableFacts:
    """One table at its current schema."""

    branches: tuple[str, ...] = ("main",)
    """Names, sorted."""
    columns: tuple[str, ...] = ()
    """Names, nested fields as a.b."""
    identifiers: tuple[str, ...] = ()
    """Columns of the schema's identifier fields, sorted."""

    def find_missing(self, names: Iterable[str]) -> list[str]:
        """Return those of `names` that are no column; upper and lower case are the same, as in
        Spark."""
        present = {column.lower() for column in self.columns}
        return [name for name in names if name.lower() not in present]
