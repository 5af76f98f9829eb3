"""Calls in turn, of which some never end: who waits, for how long, and who goes first.

A lane is one catalog: its calls come one after the other. All lanes share a few places, of which a
namespace has fewer, so that catalogs of one that hang leave places to the others. Knows nothing of
catalogs.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from icdc_api.errors import SourceUnavailable

MAX_CALLS = 8
"""Calls at the same time."""

MAX_CALLS_OF_NAMESPACE = 2
"""Calls at the same time for the pipelines of one namespace."""

Result = TypeVar("Result")


class CallLimits:
    """The places that all lanes share. For one event loop."""

    def __init__(
        self, count: int = MAX_CALLS, *, of_namespace: int = MAX_CALLS_OF_NAMESPACE
    ) -> None:
        self._all = asyncio.Semaphore(count)
        self._of_namespace = of_namespace
        self._own: dict[str, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def hold(self, namespace: str) -> AsyncIterator[None]:
        """Hold one of the places. Who waits longest goes first, of each namespace a few wait."""
        own = self._own.setdefault(namespace, asyncio.Semaphore(self._of_namespace))
        async with own, self._all:
            yield


class Lane:
    """Calls one after the other."""

    def __init__(self, limits: CallLimits, namespace: str) -> None:
        self._limits = limits
        self._namespace = namespace
        self._order = asyncio.Lock()
        self._late_at: float | None = None

    @property
    def late(self) -> bool:
        """Whether the last call took too long."""
        return self._late_at is not None

    @property
    def busy(self) -> bool:
        """Whether a call is under way."""
        return self._order.locked()

    async def call(self, work: Callable[[], Awaitable[Result]], seconds: float) -> Result:
        """Return what `work` returns, which is cancelled after `seconds`: SourceUnavailable.

        The time that it waits for its turn is not counted. Who waits behind a call that is late
        is refused with it: for each of many tables it would take as long again.
        """
        asked_at = time.monotonic()
        async with self._order:
            if self._late_at is not None and self._late_at >= asked_at:
                raise SourceUnavailable("the catalog does not answer: an earlier request was late")
            async with self._limits.hold(self._namespace):
                try:
                    async with asyncio.timeout(seconds):
                        found = await work()
                except TimeoutError:
                    self._late_at = time.monotonic()
                    raise SourceUnavailable(
                        f"the catalog does not answer within {seconds:g} s"
                    ) from None
        self._late_at = None
        return found
