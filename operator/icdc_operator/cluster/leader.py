"""Elect one of several operators by a Lease of Kubernetes.

Not `kubernetes.aio.leaderelection`: its requests have no time-out, so a leader whose request hangs
goes on leading past its lease; it reads the wall clock, ends by errors other than those of HTTP,
and does not release the lease. Here time is the monotonic clock of this process alone.

    0 s    A renews                      B sees the lease in version 7
    4 s    A loses the network
    10 s   A has not renewed for 10 s: it ends itself (LeadershipLostError)
    15 s   B has seen version 7 unchanged for 15 s: it takes the lease

Correctness does not depend on it: runs are fenced by epochs, statuses by resourceVersions.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from icdc_api import naming
from icdc_api.errors import IcdcError
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.api_errors import Conflict
from icdc_operator.cluster.kube.kinds import Kind, Resource

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Timing:
    """Times in seconds; the defaults are those of Kubernetes' own controllers."""

    lease: float = 15.0
    """Duration of a lease after its last renewal."""
    renew: float = 10.0
    """Without a renewal for so long the leader ends itself; below `lease`, to end first."""
    retry: float = 2.0
    """Between two tries of a leader to renew, or of a candidate to acquire."""


class LeadershipLostError(IcdcError):
    """Another operator may lead from now on; this process must end at once."""

    retryable = True


class LeaseApi(Protocol):
    """The part of `ClusterApi` that a Lease needs. Raises the errors of `kube.api_errors`."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        """Return the object, or None if it does not exist."""
        ...

    async def create(self, resource: Resource) -> Resource:
        """Create the object; Conflict if it exists."""
        ...

    async def replace(self, resource: Resource) -> Resource:
        """Write the object; Conflict if it was written since it was read."""
        ...


class Leader:
    """One candidate. `acquire`, then `hold` for as long as it leads, then `release`."""

    def __init__(
        self,
        api: LeaseApi,
        *,
        name: str,
        namespace: str,
        identity: str,
        timing: Timing | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._timing = timing or Timing()
        self._clock = clock
        self._sleep = sleep
        # The resourceVersion of the lease, and when this process first saw it.
        self._seen: tuple[str, float] | None = None
        self._leads = False

    async def acquire(self) -> None:
        """Return once this candidate leads. Errors of the API are logged and tried again."""
        while True:
            try:
                # An answer that comes later would show a lease that has almost ended by then.
                async with asyncio.timeout(self._timing.renew):
                    if await self._try():
                        _log.info("leading as %s", self._identity)
                        return
            except (IcdcError, TimeoutError) as error:
                _log.warning("the lease cannot be read or written: %s", error or "no answer")
            await self._sleep(self._timing.retry)

    async def hold(self) -> None:
        """Renew the lease until cancelled; raises LeadershipLostError."""
        renewed = self._clock()
        while True:
            await self._sleep(self._timing.retry)
            asked = self._clock()
            # The request gets no more time than is left: this process ends itself in time even if
            # no answer ever comes.
            left = renewed + self._timing.renew - asked
            if left <= 0:
                raise LeadershipLostError(f"not renewed for {self._timing.renew} s")
            try:
                async with asyncio.timeout(left):
                    if not await self._try():
                        raise LeadershipLostError("another operator holds the lease")
                # Counted from the request, not from the answer: others may have seen the write
                # any time in between.
                renewed = asked
            except LeadershipLostError:
                raise
            except (IcdcError, TimeoutError) as error:
                _log.warning("the lease cannot be renewed: %s", error or "no answer")

    async def release(self) -> None:
        """Release the lease, so that the next operator need not wait for its end."""
        if not self._leads:
            return
        self._leads = False
        try:
            # Short, because the pod is ending: a lease that is not released ends by itself.
            async with asyncio.timeout(self._timing.retry):
                lease = await self._read()
                if lease is not None and _get_holder(lease) == self._identity:
                    # As client-go releases one: an empty holder, and the shortest duration.
                    free = {
                        "holderIdentity": "",
                        "leaseDurationSeconds": 1,
                        "renewTime": _format_now(),
                    }
                    lease["spec"] |= free
                    await self._api.replace(lease)
        except (IcdcError, TimeoutError) as error:
            _log.warning("the lease was not released: %s", error or "no answer")

    async def _try(self) -> bool:
        """Try once to acquire or renew; return whether this candidate leads."""
        lease = await self._read()
        if lease is not None and not self._may_take(lease):
            self._leads = False
            return False
        try:
            if lease is None:
                await self._api.create(self._build_lease({}))
            else:
                await self._api.replace(self._build_lease(lease))
        except Conflict:
            # Another candidate was faster, or our own write arrived and its answer was lost.
            self._leads = _get_holder(await self._read()) == self._identity
        else:
            self._leads = True
        return self._leads

    async def _read(self) -> Resource | None:
        return await self._api.get(kinds.LEASE, self._namespace, self._name)

    def _may_take(self, lease: Resource) -> bool:
        """Return whether the lease is ours, nobody's, or unchanged for its whole duration.

        `renewTime` in it is not compared: clocks of other hosts may be wrong.
        """
        holder = _get_holder(lease)
        version = str(lease["metadata"].get("resourceVersion"))
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, self._clock())
        if holder in ("", self._identity):
            return True
        spec = lease.get("spec") or {}
        holds = float(spec.get("leaseDurationSeconds") or self._timing.lease)
        return self._clock() - self._seen[1] > holds

    def _build_lease(self, before: Resource) -> Resource:
        spec = dict(before.get("spec") or {})
        # The fields of a change of holder, as client-go writes them, for people and dashboards.
        if spec.get("holderIdentity") != self._identity:
            spec["acquireTime"] = _format_now()
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + bool(before)
        spec |= {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._timing.lease)),
            "renewTime": _format_now(),
        }
        return {
            "apiVersion": kinds.LEASE.api_version,
            "kind": kinds.LEASE.name,
            # With the resourceVersion that was read: of two concurrent writes one gets a Conflict.
            "metadata": before.get("metadata")
            or {
                "name": self._name,
                "namespace": self._namespace,
                "labels": {naming.LABEL_MANAGED_BY: naming.MANAGED_BY},
            },
            "spec": spec,
        }


def _get_holder(lease: Resource | None) -> str:
    spec = {} if lease is None else lease.get("spec") or {}
    return str(spec.get("holderIdentity") or "")


def _format_now() -> str:
    """Return the time as MicroTime of the API."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
