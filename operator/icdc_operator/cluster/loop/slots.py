"""The slots for active runs, and which limits leave room for one more.

Counts, and decides nothing: who gets the room is in `admission`. Does no I/O and knows no clock.
"""

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple
from urllib.parse import urlsplit

from icdc_api.spec import PipelineSpec
from icdc_operator.cluster.queue import PipelineKey

OPERATOR = "--max-active-runs"
NAMESPACE = "--max-active-runs-per-namespace"
TARGET = "--max-active-runs-per-target"

_PORTS = {"http": 9200, "https": 443}
"""What the OpenSearch client takes where a host names none."""


@dataclass(frozen=True)
class Limits:
    """How many runs may be active. 0: any number."""

    total: int = 0
    per_namespace: int = 0
    per_target: int = 0
    """Of pipelines with the same set of OpenSearch hosts."""

    def __bool__(self) -> bool:
        return bool(self.total or self.per_namespace or self.per_target)


class Home(NamedTuple):
    """What the runs of a pipeline are counted by."""

    namespace: str
    target: frozenset[str]
    """Empty where it is not known: then no limit of a target holds."""


class Bound(NamedTuple):
    """A limit that is reached, and for whom."""

    option: str
    allowed: int
    of: str | frozenset[str] | None = None


class State(Enum):
    """Why a slot is held."""

    CALLED = "kept for one that is about to be looked at"
    GRANTED = "its run may be planned; whether it was, the next look finds out"
    WORKING = "its run was seen"


@dataclass
class Slot:
    """Held by one pipeline."""

    home: Home
    state: State
    taken: float
    """When, by the clock of who took it."""
    waited: float = 0.0
    """For how many seconds the run had to wait for it."""


class Slots:
    """Who holds a slot. More may be held than the limits allow: what runs, runs."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.held: dict[PipelineKey, Slot] = {}
        self._namespaces: Counter[str] = Counter()
        self._targets: Counter[frozenset[str]] = Counter()

    def take(self, key: PipelineKey, slot: Slot) -> None:
        """Gives `key` that slot in place of the one that it may hold."""
        self.free(key)
        self.held[key] = slot
        self._namespaces[slot.home.namespace] += 1
        self._targets[slot.home.target] += 1

    def free(self, key: PipelineKey) -> Slot | None:
        """Takes back the slot of `key`, if it holds one."""
        slot = self.held.pop(key, None)
        if slot is not None:
            self._namespaces[slot.home.namespace] -= 1
            self._targets[slot.home.target] -= 1
            # Without what is 0, so that they do not grow with all that ever was.
            self._namespaces += Counter()
            self._targets += Counter()
        return slot

    def by_namespace(self) -> Counter[str]:
        """How many are held in each namespace where any is: a copy."""
        return self._namespaces.copy()

    def bound(self, home: Home) -> Bound | None:
        """The narrowest limit that keeps pipelines of that home from starting now."""
        limits = self.limits
        if home.target and 0 < limits.per_target <= self._targets[home.target]:
            return Bound(TARGET, limits.per_target, home.target)
        if 0 < limits.per_namespace <= self._namespaces[home.namespace]:
            return Bound(NAMESPACE, limits.per_namespace, home.namespace)
        return Bound(OPERATOR, limits.total) if self.full else None

    @property
    def full(self) -> bool:
        """Whether no pipeline may start, wherever it is."""
        return 0 < self.limits.total <= len(self.held)


def home(key: PipelineKey, spec: PipelineSpec | None) -> Home:
    """What the runs of that pipeline are counted by."""
    hosts = () if spec is None else spec.sink.opensearch.hosts
    return Home(key.namespace, frozenset(_normal(host) for host in hosts))


def _normal(host: str) -> str:
    """One writing for each address: case, a port left out and a slash at the end may differ."""
    url = urlsplit(host)
    port = url.port or _PORTS.get(url.scheme, 0)
    return f"{url.scheme}://{url.hostname}:{port}{url.path.rstrip('/')}"
