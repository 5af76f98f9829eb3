"""Judges whether comparisons of an index found what was damaged, and a repair wrote only that.

Plain comparisons of lists. It must not know how an index is damaged or compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Found = Mapping[str, Sequence[str]]
"""The ids of each kind of difference."""


@dataclass(frozen=True, kw_only=True)
class IndexWrites:
    """What an index has written in some time, by its own count."""

    indexed: int
    """Documents that were written, anew or again."""
    deleted: int
    """Documents that were deleted."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What comparisons before the damage, of it, and after its repair found."""

    damaged: Found
    """What somebody did to the index, by the kind of difference that it is."""
    before: Sequence[Found]
    """The comparisons before that."""
    during: Sequence[Found]
    """Those after it, that of the repair included."""
    after: Found
    """The one after the repair."""
    repaired: int
    """Documents that the repair says it has written or deleted."""
    written: IndexWrites
    """What the index wrote meanwhile."""

    def list_problems(self) -> list[str]:
        """Return what is wrong, in sentences; none if all is as it should be."""
        problems = [
            f"found {dict(found)} where nothing differs"
            for found in (*self.before, self.after)
            if any(found.values())
        ]
        problems += [
            f"found {dict(found)}, not {dict(self.damaged)}"
            for found in self.during
            if _sort(found) != _sort(self.damaged)
        ]
        deleted = len(self.damaged["extra"])
        count = sum(map(len, self.damaged.values()))
        if self.repaired != count:
            problems.append(f"the repair counts {self.repaired} documents, not {count}")
        if self.written != IndexWrites(indexed=count - deleted, deleted=deleted):
            problems.append(f"the index counts {self.written} for {count} documents")
        return problems


def _sort(found: Found) -> dict[str, list[str]]:
    return {kind: sorted(ids) for kind, ids in found.items()}
