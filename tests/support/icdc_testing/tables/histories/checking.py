"""Check batches against the model of each history.

A query costs as much for ten rows as for ten thousand. So pairs of snapshots of many histories are
planned each by itself and evaluated together, where they have the same columns: a key is of one
history alone, so no row of one meets a row of another. `check_alone` evaluates a pair as it is.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple
from unittest import mock

from pyspark.sql.types import VariantVal

from icdc_spark.diff.change_plan import ChangePlan, choose_planner
from icdc_spark.diff.strategies import Strategy, build_change_lines, choose_strategy
from icdc_spark.documents.document_spec import DocumentSpec, resolve_spec
from icdc_spark.documents.wishes import DocumentWishes
from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.scan.planning import FileGroup, merge_groups
from icdc_spark.readers.choose import open_reader
from icdc_spark.readers.snapshot_reader import BaseReader
from icdc_testing.lake.lake import VERSION, BatchOperations, Op, list_other_strategies, parse
from icdc_testing.tables.histories.columns import HISTORY, KEY, Cells, Column, parse_value, show_row
from icdc_testing.tables.histories.history import TableHistory
from icdc_testing.target import oracle

KEYS = (HISTORY, KEY)
Documents = dict[str, str]

_BY_FILES = (Strategy.APPEND, Strategy.ONE_READ, Strategy.TWO_READS, Strategy.STREAM)
"""Strategies to which nothing but the files of a plan matters."""


class Way(NamedTuple):
    """How a batch is computed."""

    strategy: Strategy
    # The key range that the reader estimates. None: `LINEAGE` compares keys one by one. 1: it
    # compares bitmaps of the keys, wherever these can.
    key_range: int | None = None


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two snapshots of a history, its plan, and the documents at both, under the later schema."""

    history: TableHistory
    since: int | None
    """None: from before the first snapshot."""
    until: int
    plan: ChangePlan
    before: Documents
    after: Documents

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """All strategies that must lead from one snapshot to the other."""
        # The reader of tables that Spark cannot read has no row lineage.
        has_lineage = self.history.for_spark
        chosen = choose_strategy(self.plan, lineage=has_lineage)
        rest = {choose_strategy(self.plan), *list_other_strategies(self.plan)} - {chosen}
        return (
            chosen,
            *sorted(strategy for strategy in rest if has_lineage or strategy != Strategy.LINEAGE),
        )

    @property
    def ways(self) -> Iterator[Way]:
        """The strategies, and the two ways of `LINEAGE`."""
        plan = self.plan
        in_place = plan.shared_before.files + plan.shared_after.files + plan.deleted_keys.files
        for strategy in self.strategies:
            yield Way(strategy)
            if strategy is Strategy.LINEAGE and plan.removed.files and not in_place:
                yield Way(strategy, key_range=1)

    def build_group_key(self, strategy: Strategy) -> str:
        """Return a text that is equal for pairs that may be evaluated together."""
        table = self.history.table
        # Readers show the widest types that the table has had, which are not of one snapshot.
        columns = table.select_columns(self.until, without=frozenset())
        schema = f"{table.read_schema(self.until)} {columns}"
        if strategy in _BY_FILES:
            return schema
        rest = {
            entry.name: value
            for entry in fields(self.plan)
            if entry.name not in ("from_id", "to_id", "value_deletes")
            and not isinstance(value := getattr(self.plan, entry.name), FileGroup)
        }
        return f"{schema} {rest}"


def plan_pair(history: TableHistory, since: int | None, until: int) -> Pair:
    """Plan the changes between two snapshots."""
    columns = history.read_columns(until)
    return Pair(
        history=history,
        since=since,
        until=until,
        plan=choose_planner(_resolve_spec(history, until))(history.table, since, until),
        before=build_documents([] if since is None else history.list_rows(since), columns),
        after=build_documents(history.list_rows(until), columns),
    )


def build_documents(rows: Iterable[Cells], columns: Sequence[Column]) -> Documents:
    """Return the documents of rows under these columns, as JSON, by id."""
    documents_by_id: Documents = {}
    for cells in rows:
        values = show_row(cells, columns)
        identity = oracle.build_document_id([values[name] for name in KEYS])
        assert identity not in documents_by_id, f"the model has {identity} twice"
        documents_by_id[identity] = json.dumps(oracle.convert_fields(values), sort_keys=True)
    return documents_by_id


def check_together(pairs: Sequence[Pair]) -> int:
    """Check every way on every pair; return how many batches were checked."""
    groups: dict[tuple[Way, str, int], list[Pair]] = {}
    met: Counter[tuple[Way, str, int]] = Counter()
    for one in pairs:
        for way in one.ways:
            # Pairs of one history share keys, so they must not meet.
            key = way, one.build_group_key(way.strategy)
            groups.setdefault((*key, met[*key, one.history.number]), []).append(one)
            met[*key, one.history.number] += 1
    for (way, _, _), group in groups.items():
        with mock.patch.object(BaseReader, "estimate_key_range", return_value=way.key_range):
            parts = _group_by_history(compute_batch(group[0], _join_plans(group), way.strategy))
        for one in group:
            check(one, parts.get(str(one.history.number), []), way.strategy)
    return sum(map(len, groups.values()))


def check_alone(one: Pair) -> None:
    """Check one pair by itself, also by the strategy that would be chosen."""
    for strategy in (None, *one.strategies):
        check(one, compute_batch(one, one.plan, strategy).ops, strategy)


def compute_batch(one: Pair, plan: ChangePlan, strategy: Strategy | None) -> BatchOperations:
    """Let the application compute the batch of a plan; documents as canonical JSON."""
    table, session, spec = (
        one.history.table,
        one.history.session,
        _resolve_spec(one.history, one.until),
    )
    with open_reader(session, table, one.until, spec) as reader:
        made = parse(build_change_lines(reader, plan, spec, version=VERSION, strategy=strategy))
    return made._replace(ops=[op._replace(doc=format_canonical_json(op.doc)) for op in made.ops])


def _resolve_spec(history: TableHistory, snapshot_id: int) -> DocumentSpec:
    wishes = DocumentWishes(identifier_columns=KEYS, routing=(HISTORY,))
    return resolve_spec(history.name, history.table.read_schema(snapshot_id), wishes)


def check(one: Pair, ops: list[Op], strategy: Strategy | None) -> None:
    """Assert that operations lead from one snapshot to the other, and none is sent in vain."""
    before, after, plan = one.before, one.after, one.plan
    history = one.history
    context = (
        f"history {history.number} from {one.since} to {one.until} by {strategy}:\n"
        + "\n".join(history.log)
    )
    left = _apply(before, ops)
    wrong = {key for key in left.keys() | after.keys() if left.get(key) != after.get(key)}
    assert not wrong, f"{[(key, left.get(key), after.get(key)) for key in sorted(wrong)]} {context}"
    # What is sent although it is as before costs time, and is checked below where it must not be.
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    sent = {op.id for op in ops}
    assert changed <= sent, f"{changed - sent} were not sent, {context}"
    # Equality deletes that name keys may name some that the table never had.
    named = plan.deleted_keys.files > 0
    for op in ops:
        usual = "u" if op.id in after else "d"
        expected = {usual} if op.id in before else {"c", usual} if named else {"c"}
        assert op.expect in expected, f"{op} ought to expect {expected}, {context}"
        assert op.routing == str(history.number), f"{op} is on another shard, {context}"
    compares = strategy in (Strategy.ONE_READ, Strategy.TWO_READS)
    with_deletes = plan.shared_before.files + plan.shared_after.files + len(plan.value_deletes)
    if compares and not with_deletes and not named:
        assert sent == changed, f"{sent - changed} were sent in vain, {context}"


def check_model(history: TableHistory, snapshot_ids: Iterable[int]) -> None:
    """Assert that Iceberg's own reader, not the application's, has the rows of the model."""
    for snapshot_id in snapshot_ids:
        columns = history.read_columns(snapshot_id)
        actual = _sort_texts(_read(history, snapshot_id, columns))
        expected = _sort_texts(show_row(cells, columns) for cells in history.list_rows(snapshot_id))
        assert actual == expected, (
            f"snapshot {snapshot_id} holds\n{actual}\nand not\n{expected}\n{history.log}"
        )


def _read(
    history: TableHistory, snapshot_id: int, columns: Sequence[Column]
) -> Iterable[dict[str, Any]]:
    bridge = history.table.bridge
    generics = bridge.get_statics("org.apache.iceberg.data.IcebergGenerics")
    records = bridge.drain(generics.read(history.java).useSnapshot(snapshot_id).build())
    parser = bridge.get_statics("org.apache.iceberg.SingleValueParser")
    for record in bridge.list_elements(records):
        variants = {
            column.name: _take_out_variants(bridge, record, column)
            for column in columns
            if column.has_variants
        }
        # Where deletes were applied, records have the columns of these beside the table's.
        kind = record.struct()
        wrapper = bridge.create_object("org.apache.iceberg.data.InternalRecordWrapper", kind)
        raw = json.loads(parser.toJson(kind, wrapper.wrap(record)))
        plain = {
            column.name: parse_value(column.type, raw.get(str(column.id))) for column in columns
        }
        yield {**plain, **variants}


def _take_out_variants(bridge: Bridge, record: Any, column: Column) -> Any:
    """Replace the variants of a Java record by null and return them."""
    # Iceberg has no JSON of variants: it would fail at the whole record.
    value = record.getField(column.name)
    record.setField(column.name, None)
    if value is None or column.type == "variant":
        return value and _convert_to_variant(bridge, value)
    return [item and _convert_to_variant(bridge, item) for item in value]


def _convert_to_variant(bridge: Bridge, java: Any) -> VariantVal:
    return VariantVal(_read_bytes(bridge, java.value()), _read_bytes(bridge, java.metadata()))


def _read_bytes(bridge: Bridge, part: Any) -> bytes:
    buffer = bridge.get_statics("java.nio.ByteBuffer").allocate(part.sizeInBytes())
    # Variants are little-endian, as their specification says.
    buffer.order(bridge.jvm.java.nio.ByteOrder.LITTLE_ENDIAN)
    part.writeTo(buffer, 0)
    return bytes(buffer.array())


def _sort_texts(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted(repr(dict(row)) for row in rows)


def _join_plans(group: Sequence[Pair]) -> ChangePlan:
    """Return one plan of all the files of several; one plan stays as it is."""
    first = group[0].plan
    groups: dict[str, Any] = {
        entry.name: merge_groups(
            group[0].history.table, [getattr(plan_pair.plan, entry.name) for plan_pair in group]
        )
        for entry in fields(first)
        if isinstance(getattr(first, entry.name), FileGroup)
    }
    by_value = tuple(deletes for plan_pair in group for deletes in plan_pair.plan.value_deletes)
    return replace(first, **groups, value_deletes=by_value)


def _apply(index: Documents, ops: list[Op]) -> Documents:
    """Return the documents of an index after a batch; assert one operation per id."""
    written = {op.id: op.doc for op in ops}
    assert len(written) == len(ops), f"more than one operation for an id: {ops}"
    return {key: doc for key, doc in {**index, **written}.items() if doc is not None}


def _group_by_history(made: BatchOperations) -> dict[str, list[Op]]:
    parts: dict[str, list[Op]] = {}
    for op in made.ops:
        parts.setdefault(op.id.partition("|")[0], []).append(op)
    return parts


def format_canonical_json(doc: str | None) -> str | None:
    """Return a document as JSON with its fields in order; None stays."""
    return None if doc is None else json.dumps(json.loads(doc), sort_keys=True)
