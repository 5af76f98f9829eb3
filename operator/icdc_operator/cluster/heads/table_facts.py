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

    def find_missing(self, named: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
        """Return those of the names that are no column, by the field that has them.

        Upper and lower case differ, as in runs.
        """
        missing: dict[str, list[str]] = {}
        for field, name in named:
            if name not in self.columns:
                missing.setdefault(field, []).append(name)
        return missing

    def suggest(self, name: str) -> str:
        """Return the name, with the column that differs from it by case alone, if there is one."""
        same = [column for column in self.columns if column.lower() == name.lower()]
        return f"{name} (but {same[0]})" if same else name
