"""Learn the API server's own addresses, so that readers of catalogs never connect to them.

A pod knows the address of the `kubernetes` Service; behind it are addresses of control-plane
nodes, which answer as well. The endpoints of that Service take a right that the operator does not
have. But the API server tells everybody who is logged in where it is: `GET /api` holds
`serverAddressByClientCIDRs` (the advertised address of the instance that answered; kopf asks for
the same document when it starts).

    one control-plane node        its address is known
    several                       those of the instances that have answered so far
    behind a load balancer        what `--advertise-address` or `--external-hostname` name
"""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Collection
from typing import Protocol

from icdc_api.errors import IcdcError

LEARN_SECONDS = 300.0
"""How often the API server is asked at most; another instance may answer the next time."""

RETRY_SECONDS = 15.0
"""The same, while no address is known."""

ANSWER_SECONDS = 3.0
"""For the answer and for looking its names up: a read of a table waits behind them."""

_log = logging.getLogger(__name__)


class DiscoveryApi(Protocol):
    """The API server, as far as it names its own addresses."""

    async def list_server_hosts(self) -> Collection[str]:
        """Names and addresses at which the API server says that it answers."""
        ...


class ApiServerAddresses:
    """All addresses learned so far. `clock` gives seconds that never go back."""

    def __init__(self, api: DiscoveryApi, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._addresses: set[str] = set()
        self._next_at: float | None = None
        # Connections of the same moment wait for one answer, instead of going without.
        self._asking = asyncio.Lock()

    async def learn(self) -> Collection[str]:
        """Return the addresses; asks for more where the last time was long ago.

        Raises nothing: without an answer, what is known already is what there is.
        """
        async with self._asking:
            now = self._clock()
            if self._next_at is None or now >= self._next_at:
                try:
                    async with asyncio.timeout(ANSWER_SECONDS):
                        await self._ask()
                except (IcdcError, TimeoutError, ValueError) as error:
                    # ValueError: an address that is none, such as "[bad".
                    _log.debug("the addresses of the API server cannot be read: %s", error)
                self._next_at = now + (LEARN_SECONDS if self._addresses else RETRY_SECONDS)
        return frozenset(self._addresses)

    async def _ask(self) -> None:
        loop = asyncio.get_running_loop()
        for host in await self._api.list_server_hosts():
            # A name that only nodes can look up leads nobody here to it.
            with contextlib.suppress(OSError, UnicodeError):
                entries = await loop.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
                # Without the scope of a link-local address, which is refused anyway.
                self._addresses.update(str(entry[4][0]).partition("%")[0] for entry in entries)
