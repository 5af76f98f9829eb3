"""What a task must know to write one batch: plain data, made on the driver."""

from dataclasses import dataclass

from icdc_api.sink import DeadLetterPolicy
from icdc_spark.opensearch.client.connection import Connection

DEFAULT_MAX_BYTES = 8 * 1024 * 1024
DEFAULT_RETRY_SECONDS = 300.0
OWNER_SECONDS = 5.0
"""How long a task goes on sending without asking whether its run still owns the index."""


@dataclass(frozen=True, kw_only=True)
class BulkTarget:
    """The physical index to write, the versions to write with, and the limits to keep.

    `version` is that of every operation in the lines. `retry_seconds` bounds the time without
    progress after a failure. `known_dead_letter_ids` are resolved when their key is written.
    `outranked_is_foreign`: no newer run exists, so a higher version is somebody else's write.
    `owner_seconds`: see OWNER_SECONDS. `owned_at`: when the driver knew last that its run owns the
    index, in seconds since 1970; now unless given.
    """

    connection: Connection
    pipeline: str
    alias: str
    index: str
    ordinal: int
    version: int
    epoch: int
    table: str
    snapshot_id: str
    max_bytes: int = DEFAULT_MAX_BYTES
    max_in_flight: int = 2
    retry_seconds: float = DEFAULT_RETRY_SECONDS
    dead_letter_policy: DeadLetterPolicy = DeadLetterPolicy.INDEX
    max_dead_letters: int = 10_000
    known_dead_letter_ids: frozenset[str] = frozenset()
    outranked_is_foreign: bool = False
    owner_seconds: float = OWNER_SECONDS
    owned_at: float | None = None
