"""Describes where and how a task writes one batch: plain data, made on the driver.

It must not know rows, nor anything that only the driver may know.
"""

from dataclasses import dataclass

from icdc_api.spec.indices.ingest_pipeline import IngestPipeline
from icdc_api.spec.sink import DeadLetterPolicy, SinkLimits
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.client.pace import Pace
from icdc_spark.opensearch.wire.operations import MAX_OPERATIONS

DEFAULT_MAX_BYTES = 8 * 1024 * 1024
"""The bytes of a bulk request, unless the spec says otherwise."""
DEFAULT_RETRY_SECONDS = 300.0
"""A node's restart and an election of its cluster take less."""
OWNER_SECONDS = 5.0
"""Seconds for which a task sends without asking whether its run still owns the index."""

PROGRESS_SECONDS = 10.0
"""As often as executors report to the driver what their tasks have done."""


@dataclass(frozen=True, kw_only=True)
class BulkTarget:
    """The physical index to write, the versions to write with, and the limits to keep."""

    connection: Connection
    """The OpenSearch to write to."""
    pipeline: str
    """The pipeline, as namespace/name."""
    alias: str
    """The alias of the index, and the id of its state document."""
    index: str
    """The physical index to write."""
    ordinal: int
    """The ordinal of the batch."""
    version: int
    """The external version of every operation in the lines."""
    epoch: int
    """The epoch of the run; a higher one in the state document fences it."""
    table: str
    """The name of the table, for dead letters."""
    # Text: above 2^53 a JSON reader that takes numbers for doubles would show another id.
    snapshot_id: str
    """The snapshot that is written, for dead letters."""
    max_bytes: int = DEFAULT_MAX_BYTES
    """Bytes of a request; a single larger operation makes a request of its own."""
    max_in_flight: int = 2
    """Requests that a task may have under way."""
    ingest_pipeline: IngestPipeline | None = None
    """The pipeline that documents go through; dead letters do not."""
    limits: SinkLimits | None = None
    """What the whole application may send in a second; None for no limit."""
    executors: int = 1
    """Executors that the application may have, among which the limits are divided."""
    pace: Pace | None = None
    """The share of this executor, or of the driver; None for no limit."""
    retry_seconds: float = DEFAULT_RETRY_SECONDS
    """Seconds without progress after which a failure is final."""
    dead_letter_policy: DeadLetterPolicy = DeadLetterPolicy.INDEX
    """Whether refused rows are stored, or end the batch."""
    max_dead_letters: int = 10_000
    """Dead letters that the pipeline may have; more end the batch."""
    # Sent with the task: asking the index for each key that is written would double the requests.
    known_dead_letter_ids: frozenset[str] = frozenset()
    """Ids that have a dead letter now: it is removed when their key is written."""
    settles_dead_letters: bool = True
    """False where what is written is not what a row gives its key: its dead letter stays."""
    outranked_is_foreign: bool = False
    """True if no newer run exists, so that a higher version is somebody else's write."""
    owner_seconds: float = OWNER_SECONDS
    """See OWNER_SECONDS."""
    progress_seconds: float = PROGRESS_SECONDS
    """The least time between two parts of what a task reports before its end."""
    # On the wall clock: the monotonic clocks of driver and executor have different beginnings.
    owned_at: float | None = None
    """The last time at which the driver knew that its run owns the index, in seconds since 1970;
    None for now."""

    @property
    def request_limits(self) -> tuple[int, int]:
        """The operations and the bytes of a request, at most: also what a second allows."""
        if self.pace is None:
            return MAX_OPERATIONS, self.max_bytes
        return self.pace.limit_request(MAX_OPERATIONS, self.max_bytes)
