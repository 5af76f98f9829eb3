"""Holds batches against what the model of each history says.

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

from histories.columns import HISTORY, KEY, Cells, Column, from_json, shown
from histories.history import History
from icdc_spark.diff.change_plan import ChangePlan, choose_planner
from icdc_spark.diff.strategies import Strategy, build_change_lines, choose_strategy
from icdc_spark.documents.document_spec import DocumentSpec, DocumentWishes, resolve_spec
from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.scan.planning import FileGroup, merge_groups
from icdc_spark.readers.choose import open_reader
from icdc_spark.readers.snapshot_reader import BaseReader
from icdc_testing.lake.lake import VERSION, Batch, Op, other_strategies, parsed
from icdc_testing.target import oracle

KEYS = (HISTORY, KEY)
Documents = dict[str, str]

_BY_FILES = (Strategy.APPEND, Strategy.ONE_READ, Strategy.TWO_READS, Strategy.STREAM)
"""Strategies to which nothing but the files of a plan matters."""


class Way(NamedTuple):
    """How a batch is made. `spread` is what metadata say of how far keys are apart, by which
    `LINEAGE` compares keys one by one (None), or by bitmaps where these can tell (1)."""

    strategy: Strategy
    spread: int | None = None


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two snapshots of a history, its plan, and the documents at both, under the later schema."""

    history: History
    since: int | None
    """None: from before the first snapshot."""
    until: int
    plan: ChangePlan
    before: Documents
    after: Documents

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """All that must lead from one to the other."""
        # What reads tables for which Spark is no help does not tell when a row was written.
        known = self.history.for_spark
        chosen = choose_strategy(self.plan, lineage=known)
        rest = {choose_strategy(self.plan), *other_strategies(self.plan)} - {chosen}
        return (chosen, *sorted(each for each in rest if known or each != Strategy.LINEAGE))

    @property
    def ways(self) -> Iterator[Way]:
        """The strategies, and what else they may do."""
        plan = self.plan
        in_place = plan.shared_before.files + plan.shared_after.files + plan.deleted_keys.files
        for strategy in self.strategies:
            yield Way(strategy)
            if strategy is Strategy.LINEAGE and plan.removed.files and not in_place:
                yield Way(strategy, spread=1)

    def alike(self, strategy: Strategy) -> str:
        """Equal for pairs that may be evaluated together."""
        table = self.history.table
        # Readers show the widest types that the table has had, which are not of one snapshot.
        schema = f"{table.schema(self.until)} {table.columns(self.until, without=frozenset())}"
        if strategy in _BY_FILES:
            return schema
        rest = {
            each.name: value
            for each in fields(self.plan)
            if each.name not in ("from_id", "to_id", "value_deletes")
            and not isinstance(value := getattr(self.plan, each.name), FileGroup)
        }
        return f"{schema} {rest}"


def pair(history: History, since: int | None, until: int) -> Pair:
    """Plans the changes between two snapshots."""
    columns = history.columns_at(until)
    return Pair(
        history=history,
        since=since,
        until=until,
        plan=choose_planner(_spec(history, until))(history.table, since, until),
        before=documents([] if since is None else history.rows(since), columns),
        after=documents(history.rows(until), columns),
    )


def documents(rows: Iterable[Cells], columns: Sequence[Column]) -> Documents:
    """The documents, as JSON, by id of rows under these columns."""
    found: Documents = {}
    for cells in rows:
        values = shown(cells, columns)
        identity = oracle.document_id([values[name] for name in KEYS])
        assert identity not in found, f"the model has {identity} twice"
        found[identity] = json.dumps(oracle.fields(values), sort_keys=True)
    return found


def check_together(pairs: Sequence[Pair]) -> int:
    """Checks every way on every pair; answers how many batches were checked."""
    groups: dict[tuple[Way, str, int], list[Pair]] = {}
    met: Counter[tuple[Way, str, int]] = Counter()
    for each in pairs:
        for way in each.ways:
            # Pairs of one history share keys, so they must not meet.
            place = way, each.alike(way.strategy)
            groups.setdefault((*place, met[*place, each.history.number]), []).append(each)
            met[*place, each.history.number] += 1
    for (way, _, _), group in groups.items():
        with mock.patch.object(BaseReader, "estimate_key_range", return_value=way.spread):
            parts = _by_history(batch(group[0], _joined(group), way.strategy))
        for each in group:
            check(each, parts.get(str(each.history.number), []), way.strategy)
    return sum(map(len, groups.values()))


def check_alone(one: Pair) -> None:
    """Checks one pair by itself, also by the strategy that would be chosen."""
    for strategy in (None, *one.strategies):
        check(one, batch(one, one.plan, strategy).ops, strategy)


def batch(one: Pair, plan: ChangePlan, strategy: Strategy | None) -> Batch:
    """What the application makes of a plan, documents as canonical JSON."""
    table, session, spec = one.history.table, one.history.session, _spec(one.history, one.until)
    with open_reader(session, table, one.until, spec) as reader:
        made = parsed(build_change_lines(reader, plan, spec, version=VERSION, strategy=strategy))
    return made._replace(ops=[op._replace(doc=canonical(op.doc)) for op in made.ops])


def _spec(history: History, snapshot_id: int) -> DocumentSpec:
    wishes = DocumentWishes(identifier_columns=KEYS)
    return resolve_spec(history.name, history.table.schema(snapshot_id), wishes)


def check(one: Pair, ops: list[Op], strategy: Strategy | None) -> None:
    """The operations lead from one to the other; what is carried over is not sent in vain."""
    before, after, plan = one.before, one.after, one.plan
    history = one.history
    told = f"history {history.number} from {one.since} to {one.until} by {strategy}:\n" + "\n".join(
        history.log
    )
    left = _applied(before, ops)
    wrong = {key for key in left.keys() | after.keys() if left.get(key) != after.get(key)}
    assert not wrong, f"{[(key, left.get(key), after.get(key)) for key in sorted(wrong)]} {told}"
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    sent = {op.id for op in ops}
    assert changed <= sent, f"{changed - sent} were not sent, {told}"
    # Deletes that name ids may name some that never were.
    named = plan.deleted_keys.files > 0
    for op in ops:
        known = "u" if op.id in after else "d"
        expected = {known} if op.id in before else {"c", known} if named else {"c"}
        assert op.expect in expected, f"{op} ought to expect {expected}, {told}"
    compares = strategy in (Strategy.ONE_READ, Strategy.TWO_READS)
    with_deletes = plan.shared_before.files + plan.shared_after.files + len(plan.value_deletes)
    if compares and not with_deletes and not named:
        assert sent == changed, f"{sent - changed} were sent in vain, {told}"


def check_model(history: History, snapshot_ids: Iterable[int]) -> None:
    """Iceberg's own reader, which the application does not use, shows the rows of the model."""
    for each in snapshot_ids:
        columns = history.columns_at(each)
        found = _sorted(_read(history, each, columns))
        wanted = _sorted(shown(cells, columns) for cells in history.rows(each))
        assert found == wanted, f"snapshot {each} holds\n{found}\nand not\n{wanted}\n{history.log}"


def _read(
    history: History, snapshot_id: int, columns: Sequence[Column]
) -> Iterable[dict[str, Any]]:
    bridge = history.table.bridge
    generics = bridge.statics("org.apache.iceberg.data.IcebergGenerics")
    records = bridge.drain(generics.read(history.java).useSnapshot(snapshot_id).build())
    parser = bridge.statics("org.apache.iceberg.SingleValueParser")
    for record in bridge.elements(records):
        variants = {
            each.name: _taken_out(bridge, record, each) for each in columns if each.has_variants
        }
        # Where deletes were applied, records have columns that this took beside the table's.
        kind = record.struct()
        wrapper = bridge.new("org.apache.iceberg.data.InternalRecordWrapper", kind)
        raw = json.loads(parser.toJson(kind, wrapper.wrap(record)))
        plain = {each.name: from_json(each.type, raw.get(str(each.id))) for each in columns}
        yield {**plain, **variants}


def _taken_out(bridge: Bridge, record: Any, column: Column) -> Any:
    """Variants of a Java record, and null in their place: Iceberg makes no JSON of them."""
    found = record.getField(column.name)
    record.setField(column.name, None)
    if found is None or column.type == "variant":
        return found and _variant(bridge, found)
    return [each and _variant(bridge, each) for each in found]


def _variant(bridge: Bridge, java: Any) -> VariantVal:
    return VariantVal(_written(bridge, java.value()), _written(bridge, java.metadata()))


def _written(bridge: Bridge, part: Any) -> bytes:
    buffer = bridge.statics("java.nio.ByteBuffer").allocate(part.sizeInBytes())
    buffer.order(bridge.jvm.java.nio.ByteOrder.LITTLE_ENDIAN)
    part.writeTo(buffer, 0)
    return bytes(buffer.array())


def _sorted(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted(repr(dict(row)) for row in rows)


def _joined(group: Sequence[Pair]) -> ChangePlan:
    """One plan of all the files of several; one is left as it is."""
    first = group[0].plan
    groups: dict[str, Any] = {
        each.name: merge_groups(
            group[0].history.table, [getattr(pair.plan, each.name) for pair in group]
        )
        for each in fields(first)
        if isinstance(getattr(first, each.name), FileGroup)
    }
    by_value = tuple(each for pair in group for each in pair.plan.value_deletes)
    return replace(first, **groups, value_deletes=by_value)


def _applied(index: Documents, ops: list[Op]) -> Documents:
    """The documents of an index after a batch; asserts one operation per id."""
    written = {op.id: op.doc for op in ops}
    assert len(written) == len(ops), f"more than one operation for an id: {ops}"
    return {key: doc for key, doc in {**index, **written}.items() if doc is not None}


def _by_history(made: Batch) -> dict[str, list[Op]]:
    parts: dict[str, list[Op]] = {}
    for op in made.ops:
        parts.setdefault(op.id.partition("|")[0], []).append(op)
    return parts


def canonical(doc: str | None) -> str | None:
    """A document as JSON with its fields in order; None stays."""
    return None if doc is None else json.dumps(json.loads(doc), sort_keys=True)
