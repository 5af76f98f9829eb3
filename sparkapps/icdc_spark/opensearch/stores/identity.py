"""Recognises an index that is not the one written, or that lost writes which it acknowledged.

The UUID alone does not show it: an index that is closed and restored in place keeps it, and so does
one whose shard was emptied or lost its newest writes. Each primary has a history, which is new
after a restore or a forced allocation, and a highest sequence number, which only grows: promoted
replicas, restarts, merges and edits by somebody else leave both in order.

Example, two shards: (a, 17) and (b, 12) were recorded at the last advance.
    (a, 20) (b, 12)   the same index, with more writes
    (a, 17) (c, 12)   the second shard was restored, or emptied and filled again
    (a, 16) (b, 12)   the first shard lost a write
    (a, 20) (b, 12)   after a batch of 5 writes: 2 writes are lost, of this batch or of earlier ones
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from opensearchpy.exceptions import NotFoundError

from icdc_api.errors import Gap, TargetUnavailable
from icdc_api.naming import STATE_INDEX
from icdc_spark.opensearch.client.connection import Client
from icdc_spark.opensearch.client.target_errors import repeat_passing
from icdc_spark.opensearch.stores.indices import confirm_missing
from icdc_spark.protocol.state_parts import RetainedIndex, Shards
from icdc_spark.protocol.stored_fields import FLUSH_BYTES, MAX_BYTES

_SHARD = "indices.*.shards.*"
_FILTER = ",".join(
    [
        # Few values of each copy: this is asked in every round, of all shards.
        "_shards.total",
        "indices.*.uuid",
        f"{_SHARD}.routing.primary",
        f"{_SHARD}.routing.state",
        f"{_SHARD}.routing.node",
        f"{_SHARD}.commit.user_data.history_uuid",
        f"{_SHARD}.seq_no.max_seq_no",
        f"indices.{STATE_INDEX}.primaries.docs.count",
        f"indices.{STATE_INDEX}.primaries.store.size_in_bytes",
    ]
)
# A primary that is being moved takes writes until the hand-over.
_ACTIVE = frozenset({"STARTED", "RELOCATING"})


@dataclass(frozen=True)
class Identity:
    """An index as it is now."""

    uuid: str
    """Its UUID."""
    shards: Shards
    """The progress of its primaries."""
    store_history: str
    """A digest of UUID and history of icdc-state; empty when there is none."""
    primaries: tuple[str, ...] = ()
    """The ids of the nodes that have the primaries, in the order of the shards."""
    store_bytes: tuple[int, int] | None = field(default=None, compare=False)
    """The size of icdc-state, and its limit; None when there is none."""


@repeat_passing
def identify(client: Client, index: str) -> Identity | None:
    """Read UUID, histories and sequence numbers in one request; None if no index has that name.

    TargetUnavailable while a primary is not started.
    """
    stats = _read_stats(client, index, STATE_INDEX)
    if stats is None:
        # One of the two is missing, and the answer does not say which.
        stats = _read_stats(client, index)
    if stats is None:
        confirm_missing(client, index)
        return None
    store = _compute_history(stats) if STATE_INDEX in stats else ""
    body = stats.get(index)
    if body is None:
        if stats.keys() - {STATE_INDEX}:
            return None  # It is the name of an alias now.
        raise _build_target_unavailable(index)
    copies = body.get("shards", {})
    shards = _build_shards(index, copies)
    return Identity(
        str(body["uuid"]), shards, store, _list_primary_nodes(copies), _measure_store(stats)
    )


@repeat_passing
def read_store_history(client: Client) -> str:
    """Return the `store_history` of `Identity`."""
    stats = _read_stats(client, STATE_INDEX)
    return _compute_history(stats) if stats is not None else ""


def check_identity(
    client: Client, index: str, expected_uuid: str, recorded: Shards | None = None
) -> Identity:
    """Return the index as it is now; Gap unless it is the one that was recorded."""
    now = identify(client, index)
    loss = find_loss(index, now, expected_uuid, recorded)
    if now is None or loss is not None:
        raise Gap(f"The content of {index!r} is unknown: {loss}.")
    return now


def find_loss(
    index: str, now: Identity | None, expected_uuid: str, recorded: Shards | None
) -> str | None:
    """Return what became of the index, as a clause; None if it is the one that was recorded.

    Without `recorded`, in state documents of older versions, only the UUID is compared.
    """
    if now is None:
        return f"the index {index} no longer exists"
    if now.uuid != expected_uuid:
        return f"the index {index} was re-created (its UUID changed)"
    if recorded is None:
        return None
    numbers = now.shards.max_seq_nos
    # An index cannot lose shards: some of them did not answer.
    if len(numbers) < len(recorded.max_seq_nos):
        raise _build_target_unavailable(index)
    if len(numbers) > len(recorded.max_seq_nos):
        return None  # Recorded while the last shards had no copy that answered.
    if now.shards.histories != recorded.histories:
        return f"the index {index} was restored, or shards of it were allocated by force"
    for shard, (before, after) in enumerate(zip(recorded.max_seq_nos, numbers, strict=True)):
        if after < before:
            return f"shard {shard} of the index {index} lost writes that it had acknowledged"
    return None


def find_loss_since(retained: RetainedIndex, now: Identity | None) -> str | None:
    """Return what became of an index since it was recorded as retained, as `find_loss`."""
    index = retained.index
    loss = find_loss(index, now, retained.index_uuid or "", None)
    if loss is not None or now is None:
        return loss
    if now.shards.histories != retained.histories:
        return f"the index {index} was restored, or shards of it were allocated by force"
    # Of all shards together: edits by somebody else only raise it.
    if now.shards.operations < retained.operations:
        return f"the index {index} lost writes that it had acknowledged"
    return None


def count_lost_writes(now: Shards, recorded: Shards | None, acknowledged: int) -> int:
    """Return how many writes an index lost since `recorded`, at least; 0 if none is missing.

    It acknowledged that many since then, and each took a sequence number, also a delete of a
    document that was not there. A node that lost what it had confirmed goes on with the numbers of
    the lost writes, so that what is written next hides the loss from `find_loss`. Only where no
    primary moved: one that was cut off may acknowledge what its successor never had.
    """
    if recorded is None or len(now.max_seq_nos) != len(recorded.max_seq_nos):
        return 0
    return max(0, sum(recorded.max_seq_nos) + acknowledged - sum(now.max_seq_nos))


def _read_stats(client: Client, *indices: str) -> dict[str, Any] | None:
    """Return the statistics by index; None if one of the indices is missing."""
    try:
        answer = client.indices.stats(
            index=",".join(indices),
            metric="docs,store",
            params={"level": "shards", "filter_path": _FILTER},
        )
    except NotFoundError:
        return None
    stats: dict[str, Any] = answer.get("indices", {})
    return stats


def _measure_store(stats: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the bytes of icdc-state and their limit, which nothing enforces.

    Replaced documents are in it until a merge after the next flush, and twice while they are
    merged: four flushes are far more than was ever measured.
    """
    primaries = stats.get(STATE_INDEX, {}).get("primaries", {})
    # Neither is there while no primary is.
    if not {"docs", "store"} <= primaries.keys():
        return None
    documents, used = primaries["docs"]["count"], primaries["store"]["size_in_bytes"]
    return int(used), int(documents) * MAX_BYTES + 4 * FLUSH_BYTES


def _compute_history(stats: Mapping[str, Any]) -> str:
    if STATE_INDEX not in stats:
        raise _build_target_unavailable(STATE_INDEX)
    body = stats[STATE_INDEX]
    shards = _build_shards(STATE_INDEX, body.get("shards", {}))
    return hashlib.sha256(f"{body['uuid']} {shards.histories}".encode()).hexdigest()[:32]


def _build_shards(index: str, copies: Mapping[str, list[dict[str, Any]]]) -> Shards:
    histories: list[str] = []
    numbers: list[int] = []
    for primaries in _list_active_primaries(copies):
        if not primaries:
            raise _build_target_unavailable(index)
        histories.append(primaries[0]["commit"]["user_data"]["history_uuid"])
        # Two while a primary is moved: the one that takes over is never behind for long.
        numbers.append(max(int(copy["seq_no"]["max_seq_no"]) for copy in primaries))
    if not numbers:
        raise _build_target_unavailable(index)
    digest = hashlib.sha256("\n".join(histories).encode()).hexdigest()[:32]
    return Shards(histories=digest, max_seq_nos=numbers)


def _list_active_primaries(
    copies: Mapping[str, list[dict[str, Any]]],
) -> Iterator[list[dict[str, Any]]]:
    """Yield the primaries of each shard that take writes, by number."""
    # The keys are texts, in which 10 comes before 2, and the digest has an order.
    for shard in range(len(copies)):
        yield [
            copy
            for copy in copies.get(str(shard), [])
            if copy["routing"]["primary"] and copy["routing"]["state"] in _ACTIVE
        ]


def _list_primary_nodes(copies: Mapping[str, list[dict[str, Any]]]) -> tuple[str, ...]:
    return tuple(
        str(copy["routing"]["node"])
        for primaries in _list_active_primaries(copies)
        for copy in primaries
    )


def _build_target_unavailable(index: str) -> TargetUnavailable:
    return TargetUnavailable(
        f"Index {index!r} has primary shards that are not started. If it stays so, GET "
        "/_cluster/allocation/explain of OpenSearch says why."
    )
