"""How long the phases of a batch take, measured in the functions that do them. For benchmarks."""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from icdc_spark.iceberg.table import tags
from icdc_spark.opensearch.stores.state_store import StateStore
from icdc_spark.replication import changelog
from icdc_spark.replication.checks.table_observation import TableObserver
from icdc_spark.replication.context import TableContext

_PHASES = (
    (TableObserver, "observe", "observe"),
    (tags, "change", "pin"),
    (StateStore, "replace", "record"),
    (changelog, "plan_between", "plan"),
    (changelog, "build_change_lines", "build the query"),
    (TableContext, "write", "read, compare, write"),
)


class Phases:
    """Seconds by phase, of each batch since `take`."""

    def __init__(self) -> None:
        self._spent: defaultdict[str, float] = defaultdict(float)

    def take(self) -> dict[str, float]:
        """Return the seconds spent in each phase since the last call."""
        spent, self._spent = dict(self._spent), defaultdict(float)
        return spent

    @contextmanager
    def time_phases(self) -> Iterator[None]:
        """Count while inside. The phases are timed as they are called, one table at a time."""
        with ExitStack() as stack:
            for owner, name, phase in _PHASES:
                plain = getattr(owner, name)
                stack.enter_context(patch.object(owner, name, self._count(plain, phase)))
            yield

    def _count(self, plain: Callable[..., Any], phase: str) -> Callable[..., Any]:
        def count(*args: Any, **kwargs: Any) -> Any:
            since = time.monotonic()
            try:
                return plain(*args, **kwargs)
            finally:
                self._spent[phase] += time.monotonic() - since

        return count


def compute_medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Return the median seconds of each phase over the rounds."""
    names = [phase for _, _, phase in _PHASES]
    return {name: statistics.median(one.get(name, 0.0) for one in rounds) for name in names}
