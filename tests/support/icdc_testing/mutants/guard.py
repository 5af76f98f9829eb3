"""One guard of the product: what it prevents, how it is taken out, which tests must notice."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from icdc_testing.mutants.edits import Edit
from icdc_testing.mutants.trying import ProcessOutcome


class GuardKind(Enum):
    """The subjects of guards, in the order in which people read of them."""

    FENCE = "Fence: an older run never writes over a newer one"
    INTENT = "Intent: what is written is recorded first and repeated exactly"
    WAIT = "Wait: no request of an older batch arrives later"
    VERSION = "Version: a write never loses to an older one, nor passes for another"
    IDENTITY = "Identity: index, table and state document are those that were written"
    ANCESTRY = "Ancestry: a difference is read only where both snapshots are known"
    COUNTS = "Counts: nothing is served or advanced that is not complete"
    ALIAS = "Alias: readers see our index, and nothing that they use is deleted"
    DEAD_LETTERS = "Dead letters: no row is lost without a trace"
    OPERATOR = "Operator: one run at a time, from what is true now"


@dataclass(frozen=True, kw_only=True)
class Guard:
    """One guard."""

    kind: GuardKind
    """Its subject."""
    name: str
    """A few words, unique among all guards."""
    prevents: str
    """What happens without it, as a sentence."""
    edits: tuple[Edit, ...]
    """How it is taken out."""
    tests: tuple[str, ...]
    """Node ids of test functions or of single cases; in each of them something must fail."""

    @property
    def is_cheap(self) -> bool:
        """True if its tests need neither Spark nor OpenSearch nor an API server."""
        return all(test.startswith("tests/unit/") for test in self.tests)

    @property
    def test_names(self) -> tuple[str, ...]:
        """The names of its test functions, each once."""
        functions = (test.partition("[")[0].rpartition("::")[2] for test in self.tests)
        return tuple(dict.fromkeys(functions))


def find_blind_tests(outcome: ProcessOutcome, tests: Iterable[str]) -> list[str]:
    """Return those of `tests` in which nothing failed as it is written to fail."""
    return [test for test in tests if not any(is_of(node, test) for node in outcome.failed)]


def is_of(node: str, test: str) -> bool:
    """Return whether the node id is the test, or one of its cases."""
    return node == test or node.startswith(f"{test}[")
