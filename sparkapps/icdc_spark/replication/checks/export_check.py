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

import logging

from icdc_api.base import format_count
from icdc_api.errors import DataFileMissing, Fenced, Gap
from icdc_api.spec.changelog import SwitchProof
from icdc_spark.diff.export_plan import ExportPlan
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.opensearch.stores import dead_letters, identity, indices
from icdc_spark.protocol.state_document import StateDocument
from icdc_spark.replication import duplicates
from icdc_spark.replication.checks.new_index import ComparedRows, NewIndex, RowComparison
from icdc_spark.replication.context import TableContext
from icdc_spark.replication.duplicates import NO_DUPLICATES, DuplicateSummary

LOG = logging.getLogger(__name__)

_NEWER = "a document in it, or a dead letter, is newer than what was written"


def explain(context: TableContext, state: StateDocument, error: Fenced | Gap) -> str:
    """Return what somebody did to the index while it was filled, as a clause; or raise `error`.

    Fenced in a run that owns the index: a document of a higher version is in an index that is new.
    """
    if isinstance(error, Fenced):
        return _NEWER
    intent = state.intent
    if intent is None:
        raise error
    now = identity.identify(context.client, intent.index)
    loss = identity.find_loss(intent.index, now, intent.index_uuid, None)
    if loss is None:
        raise error
    return f"{loss}: it was deleted while it was filled"


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
) -> "ComparedRows":
    with new.open_reader() as reader, translate_source_errors(reader.table_name):
        comparison = RowComparison(new, reader, planned, has_duplicates)
        return comparison.compare_all() if proof is SwitchProof.ALL else comparison.compare_sample()
