"""Edits of the product's source by exact text, so that a list of edits cannot rot silently."""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


class StaleEditError(AssertionError):
    """The text of an edit does not stand exactly once in its file, or the result is no Python."""


@dataclass(frozen=True)
class Edit:
    """One replacement in one file."""

    path: str
    """The file, below the root of the repository."""
    old: str
    """The text that is there now, exactly once."""
    new: str
    """What stands there instead."""

    def apply(self, source: str) -> str:
        """Return the edited `source`; StaleEditError where the text is not there exactly once."""
        count = source.count(self.old)
        if count != 1:
            raise StaleEditError(f"{self.path} holds {count} times, and not once:\n{self.old}")
        return source.replace(self.old, self.new)


def edit_sources(root: Path, edits: Iterable[Edit]) -> Mapping[str, str]:
    """Return the edited text of each file that `edits` name, by path below `root`.

    Several edits of one file are applied in their order. Raises StaleEditError.
    """
    edited: dict[str, str] = {}
    for edit in edits:
        source = edited.get(edit.path)
        if source is None:
            source = (root / edit.path).read_text(encoding="utf-8")
        edited[edit.path] = edit.apply(source)
    for path, source in edited.items():
        try:
            ast.parse(source, path)
        except SyntaxError as error:
            raise StaleEditError(f"{path} is no Python once it is edited: {error}") from error
    return edited
