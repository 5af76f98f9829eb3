"""Count the active runs, and find the limit that leaves no room for one more.

A slot is the right of one pipeline to have an active run. `admission` decides who gets the next
one; this module counts. Pure; it has no clock.

    limits: total 10, per_namespace 2        team-a holds 2, all together 6
    limit for another run in team-a          --max-active-runs-per-namespace (2)
    limit for a run in team-b                none: there is room
"""

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple
from urllib.parse import urlsplit

from icdc_api.spec.pipeline import PipelineSpec
from icdc_operator.cluster.queue import PipelineKey

OPERATOR = "--max-active-runs"
NAMESPACE = "--max-active-runs-per-namespace"
TARGET = "--max-active-runs-per-target"

_PORTS = {"http": 9200, "https": 443}
"""Default ports of the OpenSearch client."""


@dataclass(frozen=True)
class Limits:
    """How many runs may be active at the same time. 0: any number."""

    total: int = 0
    """Of this operator."""
    per_namespace: int = 0
    """Of each namespace."""
    per_target: int = 0
    """Of all pipelines with the same set of OpenSearch hosts."""

    def __bool__(self) -> bool:
        return bool(self.total or self.per_namespace or self.per_target)


class LimitScope(NamedTuple):
    """The namespace and the target by which the runs of a pipeline are counted."""

    namespace: str
    """Of the pipeline."""
    target: frozenset[str]
    """Its OpenSearch hosts; empty if the spec is wrong, and then no limit of a target applies."""


class ReachedLimit(NamedTuple):
    """A limit that leaves no room."""

    option: str
    """Flag of the operator that sets it."""
    allowed: int
    """Its value."""
    of: str | frozenset[str] | None = None
    """Namespace or target that it applies to; None for the operator."""


class SlotState(Enum):
    """Why a slot is held."""

    CALLED = "reserved for a pipeline that was asked to reconcile"
    GRANTED = "the pipeline may plan its run; the next reconcile finds out whether it did"
    RUNNING = "its run was observed"


@dataclass
class Slot:
    """The slot of one pipeline."""

    home: LimitScope
    """What the run counts for; limits are compared with these counts."""
    state: SlotState
    """Why it is held, and so what gives it back."""
    taken: float
    """When it was taken, by the clock of `Admission`."""
    waited: float = 0.0
    """Seconds that the run had to wait for it."""
    gives_way: bool = False
    """Whether its run was asked to end, so that the slot is free soon."""


class Slots:
    """The slots by pipeline. More may be held than allowed: no run is stopped for a limit."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.held: dict[PipelineKey, Slot] = {}
        self._namespaces: Counter[str] = Counter()
        self._targets: Counter[frozenset[str]] = Counter()

    def take(self, key: PipelineKey, slot: Slot) -> None:
        """Give `key` that slot, in place of one that it may hold."""
        self.free(key)
        self.held[key] = slot
        self._namespaces[slot.home.namespace] += 1
        self._targets[slot.home.target] += 1

    def free(self, key: PipelineKey) -> Slot | None:
        """Take back and return the slot of `key`; None if it holds none."""
        slot = self.held.pop(key, None)
        if slot is not None:
            self._namespaces[slot.home.namespace] -= 1
            self._targets[slot.home.target] -= 1
            # Drops entries that are 0, or the counters would keep every namespace there ever was.
            self._namespaces += Counter()
            self._targets += Counter()
        return slot

    def count_by_namespace(self) -> Counter[str]:
        """Return a copy of the number of slots by namespace."""
        return self._namespaces.copy()

    def find_limit(self, home: LimitScope) -> ReachedLimit | None:
        """Return the narrowest limit that leaves no room for `home`; None if there is room."""
        limits = self.limits
        # Narrowest first: the message of a waiting pipeline names the limit that it shares with
        # the fewest others, and its position is counted among those.
        if home.target and 0 < limits.per_target <= self._targets[home.target]:
            return ReachedLimit(TARGET, limits.per_target, home.target)
        if 0 < limits.per_namespace <= self._namespaces[home.namespace]:
            return ReachedLimit(NAMESPACE, limits.per_namespace, home.namespace)
        return ReachedLimit(OPERATOR, limits.total) if self.full else None

    @property
    def full(self) -> bool:
        """Return whether the limit of the operator leaves no room for anybody."""
        return 0 < self.limits.total <= len(self.held)


def build_limit_scope(key: PipelineKey, spec: PipelineSpec | None) -> LimitScope:
    """Return the namespace and target by which the runs of a pipeline are counted."""
    # As a set: the same nodes in another order are the same cluster.
    hosts = () if spec is None else spec.sink.opensearch.hosts
    return LimitScope(key.namespace, frozenset(_normalise_host(host) for host in hosts))


def _normalise_host(host: str) -> str:
    """Return one spelling of a host: lower case, with its port, without a final slash."""
    url = urlsplit(host)
    port = url.port or _PORTS.get(url.scheme, 0)
    return f"{url.scheme}://{url.hostname}:{port}{url.path.rstrip('/')}"
