"""The facts of a table for `icdc doctor`, apart from the reader: judging needs no pyiceberg."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class TableFacts:
    """One table at its current schema."""

    branches: tuple[str, ...] = ("main",)
    """Names, sorted."""
    columns: tuple[str, ...] = ()
    """Names, nested fields as a.b."""
    identifiers: tuple[str, ...] = ()
    """Columns of the schema's identifier fields, sorted."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Columns by the names that they had in earlier schemas, which runs follow."""

    def find_missing(self, named: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
        """Return those of the names that are no column, by the field that has them.

        Upper and lower case differ, as in runs. `columns` takes no earlier name, see there.
        """
        missing: dict[str, list[str]] = {}
        for where, name in named:
            known = self.columns if where == "columns" else (*self.columns, *self.renamed)
            if name not in known:
                missing.setdefault(where, []).append(name)
        return missing

    def suggest(self, name: str) -> str:
        """Return the name, with the column that differs from it by case alone, if there is one."""
        same = [column for column in self.columns if column.lower() == name.lower()]
        return f"{name} (but {same[0]})" if same else name
