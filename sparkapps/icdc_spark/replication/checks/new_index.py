"""Compares rows of a snapshot with the documents of the index that its export has written.

Example, a sample of 50 rows in three chunks, when somebody has edited document 7 and row 9 is a
dead letter:

    row 7      different
    row 9      refused
    others     equal

It must not know what follows from a difference.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from icdc_api.base import format_count, shorten
from icdc_api.job.answers import DIFFERENCE_KINDS
from icdc_spark.diff.export_plan import ExportPlan
from icdc_spark.diff.id_lookup import look_up_ids
from icdc_spark.diff.rows import EXPECT, ID
from icdc_spark.diff.strategies import build_export_lines
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.expect import Expect
from icdc_spark.matching import differences
from icdc_spark.matching.differences import EQUAL, KIND, MISSING, REFUSED
from icdc_spark.matching.pairing import compare_by_id
from icdc_spark.matching.sampling import SAMPLED, build_sample_task
from icdc_spark.opensearch.client.scan import (
    NamedIndex,
    Scan,
    close_scan,
    list_names,
    open_scan,
    read_limits,
)
from icdc_spark.opensearch.stores import dead_letters
from icdc_spark.protocol.state_document import Intent
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.replication.context import TableContext

SAMPLE_ROWS = 1000
"""Rows of a sample, about: a second or so, whatever the table's size."""
SAMPLE_CHUNKS = 4
"""Chunks that they are taken from, so that no more files are read."""
SHOWN_IDS, ID_CHARACTERS = 3, 64
"""Document ids in the description of a problem, and how much of each is shown."""


@dataclass(frozen=True)
class NewIndex:
    """An index that an export has written whole."""

    context: TableContext
    """The table in its run."""
    intent: Intent
    """The export."""
    documents: DocumentSpec
    """The documents in the schema of the snapshot."""
    planned: ExportPlan | None
    """The chunks of the snapshot; None of a table without one, and where none are written."""
    open_reader: Callable[[], SnapshotReader]
    """Opens a reader of the snapshot; not for a table without one."""


def choose_chunks(index_uuid: str, total: int) -> list[int]:
    """Return the numbers of the chunks that are sampled, in order.

    The same for one index, whoever asks, and others for the next one. Of 8 chunks 1, 3, 5 and 7,
    or 0, 2, 4 and 6.
    """
    chosen = min(total, SAMPLE_CHUNKS)
    begin = int.from_bytes(hashlib.sha256(index_uuid.encode()).digest()[:8])
    return sorted((begin + number * total // chosen) % total for number in range(chosen))


@dataclass(frozen=True)
class ComparedRows:
    """The result of a comparison."""

    counts: Mapping[str, int]
    """Rows and documents by kind."""
    samples: Sequence[str]
    """Some of the ids that differ."""

    @property
    def rows(self) -> int:
        """The rows that were compared."""
        return sum(number for kind, number in self.counts.items() if kind != "extra")

    @property
    def differing(self) -> list[str]:
        """How many there are of each kind of difference; empty if there is none."""
        kinds = (kind for kind in DIFFERENCE_KINDS if self.counts.get(kind))
        return [f"{self.counts[kind]} {kind}" for kind in kinds]

    def describe(self) -> str:
        """Return what differs, as a clause."""
        ids = ", ".join(shorten(row_id, ID_CHARACTERS) for row_id in self.samples[:SHOWN_IDS])
        rows = format_count(self.rows, "row")
        return (
            f"of {rows} that were compared with their documents: {', '.join(self.differing)} "
            f"(document ids: {ids})"
        )


@dataclass(frozen=True)
class RowComparison:
    """Compares rows of the snapshot with documents of the index."""

    new: NewIndex
    """The index."""
    reader: SnapshotReader
    """Reads the snapshot."""
    planned: ExportPlan
    """Its chunks."""
    has_duplicates: bool
    """Whether it has keys that are in more than one row."""

    def compare_sample(self) -> ComparedRows:
        """Compare some rows, always the same ones."""
        index = self._ask_for_index()
        chosen = choose_chunks(self.new.intent.index_uuid, self.planned.count)
        limit = -(-SAMPLE_ROWS // len(chosen))
        kinds = [pair for number in chosen for pair in self._compare_chunk(index, number, limit)]
        different = sorted({row_id for row_id, kind in kinds if kind == "different"})
        if different and self.has_duplicates:
            # Another row of the key may be the one that the document is made of.
            again = {
                row: kind for row, kind in self._compare_ids(index, different) if kind != "extra"
            }
            kinds = [
                (row_id, again.get(row_id, kind) if kind == "different" else kind)
                for row_id, kind in kinds
            ]
        if any(kind == MISSING for _, kind in kinds):
            refused = self._list_refused()
            kinds = [
                (row_id, REFUSED if kind == MISSING and row_id in refused else kind)
                for row_id, kind in kinds
            ]
        samples = sorted({row_id for row_id, kind in kinds if kind in DIFFERENCE_KINDS})
        return ComparedRows(Counter(kind for _, kind in kinds), samples)

    def compare_all(self) -> ComparedRows:
        """Compare every row and every document."""
        spec, reader, refused = self.new.documents, self.reader, self._list_refused()
        within, counts = None, Counter[str]()
        # What an ingest pipeline writes anew has other bytes.
        if spec.added is None:
            with self._open_scan() as scan:
                proof = differences.prove(
                    reader,
                    scan,
                    spec,
                    has_duplicates=self.has_duplicates,
                    refused_ids=refused,
                    by_content=False,
                )
            counts += Counter({EQUAL: proof.others.members, REFUSED: proof.others.refused})
            within = proof.differing
            if proof.is_equal:
                return ComparedRows(counts, ())
        with self._open_scan() as scan:
            # Before the table, which may take hours: the scan expires where nobody asks for more.
            index = differences.read_index(reader, scan, spec, within)
            table = differences.read_table(reader, spec, within, has_duplicates=self.has_duplicates)
            kinds = differences.mark_refused(reader, compare_by_id(table, index), refused)
            kinds = reader.persist(kinds)
            counts += Counter(differences.count_kinds(reader, kinds))
            differing = (kind for kind in DIFFERENCE_KINDS if counts.get(kind))
            lists = [differences.list_samples(reader, kinds, kind, SHOWN_IDS) for kind in differing]
        return ComparedRows(counts, [row_id for ids in zip(*lists, strict=False) for row_id in ids])

    @contextmanager
    def _open_scan(self) -> Iterator[Scan]:
        client, intent = self.new.context.client, self.new.intent
        scan = open_scan(client, intent.index, intent.rows, self.new.documents.added or ())
        try:
            yield scan
        finally:
            close_scan(client, scan)

    def _ask_for_index(self) -> NamedIndex:
        """Return the index, for tasks that ask for documents by their ids."""
        client, name = self.new.context.client, self.new.intent.index
        shards, page = read_limits(client, name)
        left_out = list_names(self.new.documents.added or ())
        return NamedIndex(client.connection, name, shards, page, left_out)

    def _compare_chunk(
        self, index: NamedIndex, number: int, limit: int
    ) -> Iterator[tuple[str, str]]:
        chunk = next(self.planned.iterate_chunks(number))
        # Any version would do: it is not compared.
        lines = build_export_lines(self.reader, chunk, self.new.documents, version=0)
        return self._compare_lines(index, lines.frame, limit)

    def _compare_ids(self, index: NamedIndex, ids: Sequence[str]) -> Iterator[tuple[str, str]]:
        reader = self.reader
        wanted = reader.session.createDataFrame([(row_id,) for row_id in ids], f"{ID} string")
        lines = look_up_ids(reader, wanted, self.new.documents, version=0).frame
        return self._compare_lines(index, lines.where(F.col(EXPECT) != Expect.DELETED), len(ids))

    def _compare_lines(
        self, index: NamedIndex, lines: DataFrame, limit: int
    ) -> Iterator[tuple[str, str]]:
        """Yield id and kind of the first rows."""
        task = build_sample_task(index, self.new.documents.added, limit)
        # A task stops at the limit, and so do the tasks together.
        compared = lines.select("line").mapInArrow(task, SAMPLED).limit(limit)
        yield from ((row[ID], row[KIND]) for row in compared.collect())

    def _list_refused(self) -> frozenset[str]:
        # Those of earlier batches too: of rows that are in the index there are none any more.
        return dead_letters.list_ids(self.new.context.client, self.new.context.ownership)
