"""Finds out whether a new index holds the snapshot that was exported, before readers get it.

First its documents are counted: every key of the snapshot must be a document or a dead letter. Then
documents are compared with their rows, as many as `proveBeforeSwitch` of the spec says:

    Count     none
    Sample    the first rows of up to SAMPLE_CHUNKS chunks, SAMPLE_ROWS in all
    All       every one, as `icdc verify` does

Example, a snapshot of 50 rows in three chunks, when somebody has edited document 7:

    count     the index holds 49 documents, 1 row was refused as a dead letter: 50, complete
    compare   row 7 and its document are different; row 9 is missing, but it is the dead letter
    problem   "of 50 rows that were compared with their documents: 1 different (document ids: 7)"

It must not know what follows from a problem.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from icdc_api.base import format_count, shorten
from icdc_api.errors import DataFileMissing, PassingError
from icdc_api.job.answers import DIFFERENCE_KINDS
from icdc_api.spec.changelog import SwitchProof
from icdc_spark.diff.export_plan import ExportPlan
from icdc_spark.diff.id_lookup import look_up_ids
from icdc_spark.diff.rows import EXPECT, ID
from icdc_spark.diff.strategies import build_export_lines
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.expect import Expect
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.matching import differences
from icdc_spark.matching.differences import KIND, MISSING
from icdc_spark.matching.pairing import compare_by_id
from icdc_spark.matching.sampling import SAMPLED, build_sample_task
from icdc_spark.opensearch.client.scan import (
    NamedIndex,
    close_scan,
    list_names,
    open_scan,
    read_limits,
)
from icdc_spark.opensearch.stores import dead_letters, indices
from icdc_spark.protocol.state_document import Intent
from icdc_spark.readers.parallelism import count_tasks
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.replication import duplicates
from icdc_spark.replication.context import TableContext
from icdc_spark.replication.duplicates import NO_DUPLICATES, DuplicateSummary

LOG = logging.getLogger(__name__)

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


def must_wait(context: TableContext) -> bool:
    """Return whether the next run checks the index: all is compared, and this run is to end."""
    return context.stop.is_set() and context.spec.changelog.switch_proof is SwitchProof.ALL


def count(new: NewIndex) -> tuple[DuplicateSummary, str | None]:
    """Count the documents of the index, and settle duplicate keys where something hints at them.

    Return these keys, and why the index does not hold every key of the snapshot; None if it does.
    """
    context, intent = new.context, new.intent
    documents = indices.finish_export(
        context.client, intent.index, context.opensearch.index_settings
    )
    refused = dead_letters.count(context.client, context.ownership, ordinal=intent.ordinal)
    duplicate_keys = NO_DUPLICATES
    # Only where something hints at them: it reads the keys of the whole snapshot.
    has_hint = intent.rows != documents + refused or (
        refused
        and duplicates.are_hidden(context.client, context.ownership, intent.index, intent.ordinal)
    )
    if has_hint and intent.to is not None:
        with new.open_reader() as reader:
            duplicate_keys = duplicates.settle(context, reader, new.documents, intent=intent)
        documents = indices.refresh_and_count(context.client, intent.index)
        refused = dead_letters.count(context.client, context.ownership, ordinal=intent.ordinal)
    keys = intent.rows - duplicate_keys.surplus
    if keys != documents + refused:
        return duplicate_keys, (
            f"{keys} documents were written to {intent.index}, but it holds {documents} and "
            f"{refused} were refused"
        )
    return duplicate_keys, None


def compare(new: NewIndex, *, has_duplicates: bool) -> str | None:
    """Return how documents of the index differ from their rows, as a clause; None if they do not.

    Repeated by each run that finds the export complete and the alias not moved yet. Nothing can be
    hidden from it as from `verify`: with such a role no document is written.
    """
    changelog = new.context.spec.changelog
    proof = changelog.switch_proof
    if new.planned is None or not new.planned.count or proof is SwitchProof.COUNT:
        return None
    try:
        found = _compare(new, new.planned, proof, has_duplicates)
    except DataFileMissing as error:
        if changelog.prove_before_switch is not None:
            raise
        # Nobody has asked for the sample. Where each export outlives its snapshot, readers would
        # never get an index.
        LOG.warning("%s: no sample was compared: %s", new.context.table.name, error)
        return None
    if not found.differing:
        LOG.info(
            "%s: %s of %s compared with their documents, which are equal",
            new.context.table.name,
            format_count(found.rows, "row"),
            new.intent.index,
        )
        return None
    return found.describe()


def _compare(
    new: NewIndex, planned: ExportPlan, proof: SwitchProof, has_duplicates: bool
) -> "_Found":
    with new.open_reader() as reader, translate_source_errors(reader.table_name):
        comparison = _Comparison(new, reader, planned, has_duplicates)
        return comparison.compare_all() if proof is SwitchProof.ALL else comparison.compare_sample()


def choose_chunks(index_uuid: str, total: int) -> list[int]:
    """Return the numbers of the chunks that are sampled, in order.

    The same for one index, whoever asks, and others for the next one. Of 8 chunks 1, 3, 5 and 7,
    or 0, 2, 4 and 6.
    """
    chosen = min(total, SAMPLE_CHUNKS)
    begin = int.from_bytes(hashlib.sha256(index_uuid.encode()).digest()[:8])
    return sorted((begin + number * total // chosen) % total for number in range(chosen))


@dataclass(frozen=True)
class _Found:
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
class _Comparison:
    """Compares rows of the snapshot with documents of the index."""

    new: NewIndex
    """The index."""
    reader: SnapshotReader
    """Reads the snapshot."""
    planned: ExportPlan
    """Its chunks."""
    has_duplicates: bool
    """Whether it has keys that are in more than one row."""

    def compare_sample(self) -> _Found:
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
                (row_id, differences.REFUSED if kind == MISSING and row_id in refused else kind)
                for row_id, kind in kinds
            ]
        samples = sorted({row_id for row_id, kind in kinds if kind in DIFFERENCE_KINDS})
        return _Found(Counter(kind for _, kind in kinds), samples)

    def compare_all(self) -> _Found:
        """Compare every row and every document."""
        context, spec, reader = self.new.context, self.new.documents, self.reader
        slices = count_tasks(reader.session)
        scan = open_scan(context.client, self.new.intent.index, slices, spec.added or ())
        try:
            # Before the table, which may take hours: the scan expires where nobody asks for more.
            index = differences.read_index(reader, scan, spec)
            table = differences.read_table(reader, spec, has_duplicates=self.has_duplicates)
            kinds = differences.mark_refused(
                reader, compare_by_id(table, index), self._list_refused()
            )
            kinds = reader.persist(kinds)
            counts = differences.count_kinds(reader, kinds)
            differing = (kind for kind in DIFFERENCE_KINDS if counts.get(kind))
            lists = [differences.list_samples(reader, kinds, kind, SHOWN_IDS) for kind in differing]
        finally:
            # It expires by itself.
            with suppress(PassingError):
                close_scan(context.client, scan)
        return _Found(counts, [row_id for ids in zip(*lists, strict=False) for row_id in ids])

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
