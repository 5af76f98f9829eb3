"""Ends the requests of a run that was replaced while it was cut off, stopped or thought dead.

A run learns at its next change of the state document that another one has taken over, which may be
hours away in a long batch. So a task asks before a request who owns the index, if it has not asked
in the last seconds. A run that takes over a batch which was under way waits as long before it
writes (`tasks.wait_until_quiet`), so that no older request can begin after its first. It must not
judge what the state document says beyond its owner.
"""

import time
from threading import Lock

from opensearchpy.exceptions import NotFoundError

from icdc_api.errors import Fenced
from icdc_api.naming import STATE_INDEX
from icdc_spark.opensearch.bulk.target import BulkTarget
from icdc_spark.opensearch.client.connection import Client, open_client
from icdc_spark.opensearch.client.target_errors import translate_errors


class OwnerWatch:
    """Asks at intervals who owns the index; used by all threads of a task."""

    def __init__(self, target: BulkTarget) -> None:
        self._target = target
        # The driver has changed the state document: the first seconds after that are its own. It
        # may be long ago, where planning took long or the driver was stopped.
        owned_at = target.owned_at if target.owned_at is not None else time.time()
        passed = time.time() - owned_at
        # Not so where this host's clock is behind the driver's: how much has passed is not known.
        passed = passed if passed >= 0 else target.owner_seconds
        self._asked = time.monotonic() - passed
        self._lock = Lock()
        self._client: Client | None = None

    def check(self) -> None:
        """Raise Fenced if a newer run owns the index, a PassingError if that cannot be known.

        Makes no request for as long as the last answer holds (`owner_seconds`).
        """
        # Under the lock: the other threads wait for the answer, and do not ask as well.
        with self._lock:
            if time.monotonic() - self._asked < self._target.owner_seconds:
                return
            # Taken before the request: the answer is at least as new as this.
            asked = time.monotonic()
            self._ask()
            self._asked = asked

    def close(self) -> None:
        """Close the socket."""
        if self._client is not None:
            self._client.close()

    def _ask(self) -> None:
        target = self._target
        if self._client is None:
            self._client = open_client(target.connection, pool=1)
        with translate_errors(target.connection):
            try:
                document = self._client.get(
                    index=STATE_INDEX, id=target.alias, params={"_source_includes": "owner"}
                )
            except NotFoundError as error:
                if isinstance(error.info, dict) and error.info.get("found") is False:
                    raise Fenced(
                        f"The state document {target.alias!r} was deleted meanwhile."
                    ) from error
                # No index, or a node that has not recovered: the next change of the document fails.
                return
        owner = document["_source"]["owner"]
        if owner["pipeline"] != target.pipeline or owner["epoch"] > target.epoch:
            raise Fenced(
                f"Alias {target.alias!r} is now owned by run {owner['runId']!r} with epoch "
                f"{owner['epoch']}; this run has stopped writing."
            )
