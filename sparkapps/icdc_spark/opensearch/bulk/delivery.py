"""The fate of operations that were handed to the bulk client: plain data.

It must not know how requests are sent, nor what is done about refused operations.
"""

from dataclasses import dataclass, field

from icdc_spark.opensearch.bulk.result import PartitionResult
from icdc_spark.opensearch.wire.item_outcome import ItemAnswer
from icdc_spark.opensearch.wire.operations import Operations


@dataclass(frozen=True)
class RefusedOperation:
    """One operation that the index will never take."""

    operation: Operations
    """The operation alone, as it was sent."""
    answer: ItemAnswer
    """Why it was refused."""

    @property
    def document_id(self) -> str:
        """The document's id."""
        return self.operation.get_document_id(0)


@dataclass(frozen=True)
class VersionConflict:
    """One operation whose document has a version at least as high."""

    operation: Operations
    """The operation alone, as it was sent."""
    current: int
    """The version that OpenSearch has, or remembers of a deleted document."""

    @property
    def document_id(self) -> str:
        """The document's id."""
        return self.operation.get_document_id(0)


@dataclass
class Delivery:
    """What became of the operations handed to `BulkClient.deliver`."""

    result: PartitionResult = field(default_factory=PartitionResult)
    """Counts by outcome, and the traffic."""
    refused: list[RefusedOperation] = field(default_factory=list)
    """Operations that the index will never take."""
    conflicts: list[VersionConflict] = field(default_factory=list)
    """Version conflicts, where the client was asked to report them."""
    indexed: list[Operations] = field(default_factory=list)
    """Some of the documents that went through an ingest pipeline and were written just now, each
    alone."""
    written: list[str] = field(default_factory=list)
    """Those of the watched ids whose operation was applied, now or by an earlier attempt."""
