"""One mapping of a Data Prepper file, from which options are taken one by one.

What nobody has taken in the end is remarked on: with what `remarks` knows, or as unknown with the
nearest name. So no option is lost silently.

Values are the texts that stand in the file, as Data Prepper takes `"3"` for 3 and 3 for `"3"`. A
message repeats only those of options that hold no credential: `password=…` may stand where a
mapping belongs, by a mistake of indentation.
"""

import re
from collections.abc import Mapping
from typing import Any

from icdc_api.crd.explain import describe_kind
from icdc_api.errors import BadSpec
from icdc_api.problems import format_value
from icdc_cli import options

_NUMBER = re.compile(r"[-+]?[0-9]{1,9}")


class Section:
    """A mapping at `path` in the file `source`. All sections of a file share `notes`."""

    def __init__(self, values: object, path: str, source: str, notes: list[str]) -> None:
        """Begin to read; BadSpec where `values` is no mapping."""
        if not isinstance(values, dict):
            raise BadSpec(f"{source}: {path}: is {describe_kind(values)}; allowed: a mapping")
        self._left: dict[str, Any] = dict(values)
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
            raise self.refuse_kind(name, value, "a text")
        return value

    def take_flag(self, name: str) -> bool:
        """Return whether an option is set to true."""
        value = self.take_text(name)
        if value is not None and value.lower() not in ("true", "false"):
            raise self.refuse(name, value, "true or false")
        return value is not None and value.lower() == "true"

    def take_number(self, name: str, allowed: str) -> int | None:
        """Return the whole number of an option; BadSpec with what is `allowed` else."""
        value = self.take_text(name)
        if value is None:
            return None
        # Not by `int` alone, which takes 1_000 and digits of other scripts as well.
        if not _NUMBER.fullmatch(value):
            raise self.refuse(name, value, allowed)
        return int(value)

    def take_texts(self, name: str) -> list[str]:
        """Return the texts in the list of an option; a single one stands for a list of one."""
        value = self.take(name)
        listed = [] if value is None else [value] if isinstance(value, str) else value
        if not isinstance(listed, list):
            raise self.refuse_kind(name, value, "a list")
        for position, entry in enumerate(listed):
            if not isinstance(entry, str):
                raise self.refuse_kind(f"{name}[{position}]", entry, "a text")
        return listed

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

    def refuse(self, name: str, value: str, allowed: str) -> BadSpec:
        """Return the error for a value that Data Prepper would refuse as well."""
        where = f"{self.source}: {self.path}.{name}"
        return BadSpec(f"{where}: {format_value(value)} is not allowed; allowed: {allowed}")

    def refuse_kind(self, name: str, value: object, allowed: str) -> BadSpec:
        """Return the same without the value, of which the kind is wrong."""
        found = "missing" if value is None else f"is {describe_kind(value)}"
        return BadSpec(f"{self.source}: {self.path}.{name}: {found}; allowed: {allowed}")

    def close(self, remarks: Mapping[str, str]) -> None:
        """Note each option that was not taken."""
        for name in self._left:
            # What was asked for is known as well, whether the file has it or not.
            near = options.suggest_name(name, [*remarks, *self._taken])
            unknown = f"this option is not known and was left out{near}"
            self.note(name, remarks.get(name, unknown))
