"""What a partition did, as data: failures of the domain travel in it, never as exceptions.

An exception in a Spark task would be retried by Spark and reach the driver as a wall of text.
"""

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Self

import icdc_api.errors
from icdc_api.errors import Bug, IcdcError

MAX_SAMPLES = 20


@dataclass
class Samples:
    """How often something happened, and up to 20 document ids."""

    count: int = 0
    ids: list[str] = field(default_factory=list)

    def add(self, document_id: str) -> None:
        """Counts one."""
        self.count += 1
        if len(self.ids) < MAX_SAMPLES:
            self.ids.append(document_id)

    def merge(self, other: "Samples") -> None:
        """Adds the other's count, and its ids while there is room."""
        self.count += other.count
        self.ids = (self.ids + other.ids)[:MAX_SAMPLES]


@dataclass
class PartitionResult:
    """Counts of operations by what became of them, and the error that ended the partition.

    `refused`: the ids of the dead letters by their error type. `suspects`: operations expected to
    create that the index answered with "updated".
    `ambiguous`: some request went unanswered and may be applied later.
    """

    upserted: int = 0
    deleted: int = 0
    already_applied: int = 0
    foreign_edits: Samples = field(default_factory=Samples)
    dead_letters: int = 0
    refused: dict[str, list[str]] = field(default_factory=dict)
    resolved: int = 0
    suspects: Samples = field(default_factory=Samples)
    bytes: int = 0
    requests: int = 0
    retries: int = 0
    ambiguous: bool = False
    error: tuple[str, str] | None = None

    def fail(self, error: IcdcError) -> None:
        """Records the first error."""
        if self.error is None:
            self.error = (type(error).__name__, error.message)

    def merge(self, other: "PartitionResult") -> None:
        """Adds what another partition, or another request, did."""
        for each in fields(self):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, Samples):
                mine.merge(theirs)
            elif each.name == "refused":
                for kind, ids in theirs.items():
                    mine.setdefault(kind, []).extend(ids)
            elif each.name == "error":
                self.error = mine or theirs
            elif each.name == "ambiguous":
                self.ambiguous = mine or theirs
            else:
                setattr(self, each.name, mine + theirs)

    def error_is(self, kind: type[IcdcError]) -> bool:
        """Whether the recorded error is of exactly this class."""
        return self.error is not None and self.error[0] == kind.__name__

    def raise_error(self) -> None:
        """Raises the recorded error as what it was."""
        if self.error is None:
            return
        name, message = self.error
        kind = getattr(icdc_api.errors, name, Bug)
        raise kind(message)

    def to_json(self) -> str:
        """The form in which it leaves a Spark task."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`."""
        content = json.loads(text)
        for name in ("foreign_edits", "suspects"):
            content[name] = Samples(**content[name])
        content["error"] = tuple(content["error"]) if content["error"] else None
        return cls(**content)
