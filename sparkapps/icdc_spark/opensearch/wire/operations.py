"""Bulk operations as bytes: slices of Arrow's value buffers, never one Python object per row.

An operation is one NDJSON entry (action line, and the document for an index operation) with its
final newline, and one letter that says what was expected (`expect.Expect`). It must not know HTTP
or verdicts.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icdc_spark.documents.expect import Expect

MAX_OPERATIONS = 50_000
"""Operations in one request, however small they are: bounds the server's answer."""

CREATE, DELETE = Expect.CREATED.encode(), Expect.DELETED.encode()
_REFUSED = Expect.REFUSED.encode()
REFUSED_NEW = Expect.REFUSED_NEW.encode()

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Operations:
    """A request's worth of operations."""

    body: bytes
    """The NDJSON entries of all operations, one after the other."""
    ends: Offsets
    """The offset in `body` at which each operation ends."""
    expects: bytes
    """One letter for each operation: its value of the column `expect`."""

    def __len__(self) -> int:
        return len(self.expects)

    def get_entry(self, position: int) -> bytes:
        """Return the NDJSON text of the operation at `position`."""
        start = int(self.ends[position - 1]) if position else 0
        return self.body[start : int(self.ends[position])]

    def get_action(self, position: int) -> dict[str, Any]:
        """Return the parameters in the action line of the operation at `position`."""
        action = json.loads(self.get_entry(position).partition(b"\n")[0])
        # One key, the operation: `index` or `delete`.
        (parameters,) = action.values()
        return dict(parameters)

    def get_document_id(self, position: int) -> str:
        """Return the `_id` in the action line of the operation at `position`."""
        return str(self.get_action(position)["_id"])

    def get_routing(self, position: int) -> str | None:
        """Return the routing in that line; None where the `_id` decides on the shard."""
        routing = self.get_action(position).get("routing")
        return None if routing is None else str(routing)

    def get_failed_field(self, position: int) -> str:
        """Return the field whose expression fails on a refused row."""
        return str(self.get_action(position)["failed"])

    def get_document(self, position: int) -> bytes:
        """Return the `_source` text of an index operation, empty for a delete."""
        return self.get_entry(position).partition(b"\n")[2].rstrip(b"\n")

    def pick_range(self, start: int, stop: int) -> "Operations":
        """Return the operations `start` to `stop` (exclusive)."""
        # The ends of a part count from its own beginning.
        first = int(self.ends[start - 1]) if start else 0
        last = int(self.ends[stop - 1])
        return Operations(
            self.body[first:last], self.ends[start:stop] - first, self.expects[start:stop]
        )

    def pick(self, positions: Sequence[int]) -> "Operations":
        """Return the operations at the given positions, in their order."""
        return build_operations(
            [self.get_entry(position) for position in positions],
            b"".join(self.expects[position : position + 1] for position in positions),
        )

    def take_out_refused(self) -> tuple["Operations", Sequence["Operations"]]:
        """Return the operations to send, and those that were refused before sending, one each."""
        if _REFUSED not in self.expects and REFUSED_NEW not in self.expects:
            return self, ()
        is_refused = np.isin(np.frombuffer(self.expects, dtype="S1"), (_REFUSED, REFUSED_NEW))
        refused = np.flatnonzero(is_refused).tolist()
        sent = self.pick(np.flatnonzero(~is_refused).tolist())
        return sent, [self.pick_range(position, position + 1) for position in refused]

    def split_in_half(self) -> tuple["Operations", "Operations"]:
        """Return both halves of at least two operations."""
        middle = len(self) // 2
        return self.pick_range(0, middle), self.pick_range(middle, len(self))


def build_operations(entries: Sequence[bytes], expects: bytes) -> Operations:
    """Build a few operations from their texts; not for the rows of a table."""
    # `cumsum` of the lengths is where each entry ends.
    lengths = np.fromiter((len(entry) for entry in entries), dtype=np.int64, count=len(entries))
    return Operations(b"".join(entries), np.cumsum(lengths), expects)


def build_delete_entry(document_id: str, version: int, routing: str | None = None) -> bytes:
    """Build a delete operation with an external version."""
    fields = {"_id": document_id, "version": version, "version_type": "external"}
    if routing is not None:
        fields["routing"] = routing
    return json.dumps({"delete": fields}).encode() + b"\n"


def build_index_entry(document_id: str, version: int, document: bytes) -> bytes:
    """Build an index operation with an external version; `document` is JSON on one line."""
    fields = {"_id": document_id, "version": version, "version_type": "external"}
    return json.dumps({"index": fields}).encode() + b"\n" + document + b"\n"


class Assembler:
    """Joins the rows of many record batches into requests of at most `max_bytes`.

    A single operation that is larger makes a request of its own. Holds on to at most one
    request's worth of Arrow memory between calls.

    Example, `max_bytes` = 100, two record batches with operations of these sizes:

        40 40 | 50 120 10
        requests: (40 40), (50), (120), (10, from `rest`)
    """

    def __init__(self, max_bytes: int, max_operations: int = MAX_OPERATIONS) -> None:
        self._max_bytes = max_bytes
        self._max_operations = max_operations
        self._clear()

    def add(self, batch: pa.RecordBatch) -> Iterator[Operations]:
        """Take the columns `line` and `expect`; yield the requests that became full."""
        values, offsets = _extract_values(batch.column("line"))
        expects, expect_offsets = _extract_values(batch.column("expect"))
        first = int(expect_offsets[0])
        row = 0
        while row < batch.num_rows:
            # The offsets are sorted: the last row that fits is found without reading rows.
            limit = int(offsets[row]) + self._max_bytes - self._bytes
            stop = int(np.searchsorted(offsets, limit, side="right")) - 1
            stop = min(stop, row + self._max_operations - self._rows, batch.num_rows)
            if stop <= row and self._rows:
                yield self._take()
                continue
            # Larger than a request may be, but it cannot be cut.
            stop = max(stop, row + 1)
            start_byte, stop_byte = int(offsets[row]), int(offsets[stop])
            self._bodies.append(values[start_byte:stop_byte])
            self._ends.append(offsets[row + 1 : stop + 1] - start_byte + self._bytes)
            self._expects.append(bytes(expects[first + row : first + stop]))
            self._bytes += stop_byte - start_byte
            self._rows += stop - row
            row = stop

    def take_rest(self) -> Iterator[Operations]:
        """Yield the rows that are left after the last batch."""
        if self._rows:
            yield self._take()

    def _take(self) -> Operations:
        # The one copy of the bytes on their way from Arrow to the socket.
        ready = Operations(
            b"".join(self._bodies), np.concatenate(self._ends), b"".join(self._expects)
        )
        self._clear()
        return ready

    def _clear(self) -> None:
        self._bodies: list[memoryview] = []
        self._ends: list[Offsets] = []
        self._expects: list[bytes] = []
        self._bytes = 0
        self._rows = 0


def _extract_values(column: pa.Array) -> tuple[memoryview, Offsets]:
    """Return the value bytes of a binary or string column, and the offsets of its rows in them.

    A sliced array shares its parent's buffers, so the offsets need not start at 0.
    """
    if column.null_count:
        raise ValueError("operations have no nulls")
    wide = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    _, offsets, values = column.buffers()
    width = np.dtype(np.int64 if wide else np.int32)
    if len(column) == 0 or offsets is None:
        return memoryview(b""), np.zeros(1, dtype=np.int64)
    positions = np.frombuffer(
        offsets, dtype=width, count=len(column) + 1, offset=column.offset * width.itemsize
    )
    return memoryview(values or b"").cast("B"), positions.astype(np.int64)
