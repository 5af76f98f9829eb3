"""Limit calls of which some never end: how many run at once, for how long, and in which order.

A lane is one catalog: its calls run one after the other. All lanes together have MAX_CALLS, a
namespace MAX_CALLS_OF_NAMESPACE of them. Catalogs of one namespace that hang therefore leave calls
to the others. It must not know what a catalog is.

    team-a has 5 catalogs that hang, team-b has 1      running: a1, a2, b1; a3..a5 wait for a1, a2
    a1 is late after 20 s                              a1 fails, and all that wait behind a1 with it
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from icdc_api.errors import IcdcError, SourceUnavailable

MAX_CALLS = 8
"""Calls that run at the same time, each with a child process that may use a processor."""

MAX_CALLS_OF_NAMESPACE = 2
"""Of these, calls for the pipelines of one namespace."""

Result = TypeVar("Result")


class CallLimits:
    """The limits that all lanes share. For one event loop."""

    def __init__(
        self, count: int = MAX_CALLS, *, of_namespace: int = MAX_CALLS_OF_NAMESPACE
    ) -> None:
        self._all = asyncio.Semaphore(count)
        self._of_namespace = of_namespace
        self._own: dict[str, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def hold(self, namespace: str) -> AsyncIterator[None]:
        """Run the block as one call within the limits; the call that waits longest comes first."""
        # The namespace's limit first: else its waiting calls would hold those of the operator.
        own = self._own.setdefault(namespace, asyncio.Semaphore(self._of_namespace))
        async with own, self._all:
            yield


class Lane:
    """One catalog, whose calls run one after the other."""

    def __init__(self, limits: CallLimits, namespace: str) -> None:
        self._limits = limits
        self._namespace = namespace
        self._order = asyncio.Lock()
        self._late_at: float | None = None

    @property
    def late(self) -> bool:
        """Return whether the last call took too long."""
        return self._late_at is not None

    @property
    def busy(self) -> bool:
        """Return whether a call is running."""
        return self._order.locked()

    async def call(self, work: Callable[[], Awaitable[Result]], seconds: float) -> Result:
        """Run `work` and return its result; SourceUnavailable if it takes longer than `seconds`.

        The wait for the lane and the limits is not counted. A call that waited behind a late one
        fails with it: otherwise each of many tables would wait for the same time-out again.
        """
        asked_at = time.monotonic()
        async with self._order:
            if self._late_at is not None and self._late_at >= asked_at:
                raise SourceUnavailable("the catalog does not answer: an earlier request was late")
            async with self._limits.hold(self._namespace):
                try:
                    async with asyncio.timeout(seconds):
                        result = await work()
                except TimeoutError:
                    self._late_at = time.monotonic()
                    raise SourceUnavailable(
                        f"the catalog does not answer within {seconds:g} s"
                    ) from None
                except IcdcError:
                    # An answer, and in time.
                    self._late_at = None
                    raise
        self._late_at = None
        return result
