"""One mapping of a Data Prepper file, from which options are taken one by one.

What nobody has taken in the end is remarked on: with what `remarks` knows, or as unknown with the
nearest name. So no option is lost silently.
"""

from collections.abc import Mapping
from typing import Any

from icdc_api.errors import BadSpec
from icdc_api.problems import format_value
from icdc_cli import options


class Section:
    """A mapping at `path` in the file `source`. All sections of a file share `notes`."""

    def __init__(self, values: object, path: str, source: str, notes: list[str]) -> None:
        """Begin to read; BadSpec where `values` is no mapping."""
        if not isinstance(values, dict):
            raise BadSpec(f"{source}: {path}: {format_value(values)} is not a mapping")
        self._left: dict[str, Any] = {str(key): value for key, value in values.items()}
        self._taken: set[str] = set()
        self.path, self.source, self.notes = path, source, notes

    def take(self, name: str) -> Any:
        """Return the value of an option; None if it is absent, or null."""
        self._taken.add(name)
        return self._left.pop(name, None)

    def take_text(self, name: str) -> str | None:
        """Return the text of an option; BadSpec for anything else."""
        value = self.take(name)
        if value is not None and not isinstance(value, str):
            raise self.refuse(name, value, "a text")
        return value

    def take_flag(self, name: str) -> bool:
        """Return whether an option is set to true."""
        value = self.take(name)
        # 1 equals True, and is no flag.
        if value is not None and not isinstance(value, bool):
            raise self.refuse(name, value, "true or false")
        return bool(value)

    def take_list(self, name: str) -> list[Any]:
        """Return the list of an option; a single text stands for a list of one."""
        value = self.take(name)
        if isinstance(value, str):
            return [value]
        if value is not None and not isinstance(value, list):
            raise self.refuse(name, value, "a list")
        return value or []

    def take_all(self) -> dict[str, Any]:
        """Return all that was not taken yet."""
        taken, self._left = self._left, {}
        return taken

    def open(self, name: str, value: object) -> "Section":
        """Return the section of a mapping that was found below this one."""
        return Section(value, f"{self.path}.{name}", self.source, self.notes)

    def note(self, name: str, text: str) -> None:
        """Remember what has to be said of an option."""
        self.notes.append(f"{self.path}.{name}: {text}")

    def refuse(self, name: str, value: object, allowed: str) -> BadSpec:
        """Return the error for a value that Data Prepper would refuse as well."""
        return BadSpec(
            f"{self.source}: {self.path}.{name}: {format_value(value)} is not allowed; allowed: "
            f"{allowed}"
        )

    def close(self, remarks: Mapping[str, str]) -> None:
        """Note each option that was not taken."""
        for name in self._left:
            # What was asked for is known as well, whether the file has it or not.
            near = options.suggest_name(name, [*remarks, *self._taken])
            unknown = f"this option is not known and was left out{near}"
            self.note(name, remarks.get(name, unknown))
