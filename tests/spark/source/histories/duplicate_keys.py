"""Check batches of a table with duplicate keys against the model of its history.

Any row of such a key may be the document, but always the same one: which, the model cannot know. As
the application does once it knows of such keys, each changed id is looked up in the snapshot.
"""

import json
from collections.abc import Iterable, MutableMapping, Sequence
from typing import Any

from icdc_spark.diff.change_plan import choose_planner
from icdc_spark.diff.id_lookup import look_up_ids
from icdc_spark.diff.strategies import list_changed_ids
from icdc_spark.documents.document_spec import resolve_spec
from icdc_spark.documents.wishes import DocumentWishes
from icdc_spark.readers.choose import open_reader
from icdc_testing.lake.lake import VERSION, parse
from icdc_testing.tables.histories.checking import KEYS, format_canonical_json
from icdc_testing.tables.histories.columns import Cells, Column, show_row
from icdc_testing.tables.histories.history import TableHistory
from icdc_testing.target import oracle

Candidates = dict[str, tuple[str, ...]]
"""By id the documents of its rows, as JSON, in their order, equal ones as often as they occur."""

Chosen = MutableMapping[tuple[object, ...], str]
"""The document that was chosen, by id and candidates, whatever schema they are shown under."""


def check_duplicate_keys(
    history: TableHistory, since: int | None, until: int, chosen: Chosen
) -> int:
    """Check the batch between two snapshots; return how many ids with several rows it wrote."""
    columns = history.read_columns(until)
    before = {} if since is None else build_candidates(history.list_rows(since), columns)
    after = build_candidates(history.list_rows(until), columns)
    context = f"from {since} to {until}:\n" + "\n".join(history.log)
    ops = _compute_batch(history, since, until)
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    assert changed <= ops.keys(), f"{changed - ops.keys()} were not sent, {context}"
    for key, document in ops.items():
        of = after.get(key, ())
        assert document in of or not (document or of), f"{key}: {document}, not of {of}, {context}"
        if document is not None:
            earlier = chosen.setdefault((key, of), document)
            assert document == earlier, f"{key}: {document} now, {earlier} before, {context}"
    return sum(len(after.get(key, ())) > 1 for key in ops)


def build_candidates(rows: Iterable[Cells], columns: Sequence[Column]) -> Candidates:
    """Return the documents that each id may have."""
    texts: dict[str, list[str]] = {}
    for cells in rows:
        values: dict[str, Any] = show_row(cells, columns)
        identity = oracle.build_document_id([values[name] for name in KEYS])
        document = json.dumps(oracle.convert_fields(values), sort_keys=True)
        texts.setdefault(identity, []).append(document)
    return {identity: tuple(sorted(documents)) for identity, documents in texts.items()}


def _compute_batch(history: TableHistory, since: int | None, until: int) -> dict[str, str | None]:
    """Return the document of each id that a batch writes, None for a delete."""
    table, wishes = history.table, DocumentWishes(identifier_columns=KEYS)
    spec = resolve_spec(history.name, table.read_schema(until), wishes)
    plan = choose_planner(spec)(table, since, until)
    with open_reader(history.session, table, until, spec) as reader:
        ids = list_changed_ids(reader, plan, spec)
        made = parse(look_up_ids(reader, ids, spec, version=VERSION))
    documents = {op.id: format_canonical_json(op.doc) for op in made.ops}
    assert len(documents) == len(made.ops), f"more than one operation for an id: {made.ops}"
    return documents
