"""Two rows have one fingerprint exactly when they have one document."""

import functools
import json
import operator
import random
from collections import defaultdict
from collections.abc import Callable

import pytest
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff import key_bitmaps
from icdc_spark.diff.export_plan import plan_export
from icdc_spark.diff.id_lookup import look_up_all
from icdc_spark.diff.rows import name_cell, select_cells
from icdc_spark.diff.shaping import build_document
from icdc_spark.diff.strategies import Strategy
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.fingerprint import compute_choice, compute_fingerprint
from icdc_spark.documents.serialise import Cells
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.readers.choose import open_reader
from icdc_testing.lake.lake import VERSION, Lake, Op, parse

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("whole_stage_codegen")]

# Per column values that a hash over the plain columns confuses, in SQL.
VALUES = {
    "a string": ["null", "''", "'a'", "'b'", "'ab'", "'null'", "'0'"],
    "b string": ["null", "''", "'a'", "'b'", "'bc'"],
    "i int": ["null", "0", "1", "-1"],
    "l bigint": ["null", "0", "1", "42"],
    "t boolean": ["null", "true", "false"],
    "d double": ["null", "0D", "double('-0.0')", "double('NaN')", "double('Infinity')", "1D"],
    "f float": ["null", "float(0)", "float('-0.0')", "float('NaN')", "float('0.1')"],
    "n decimal(10,2)": ["null", "0BD", "1.00BD", "-1.00BD"],
    "w decimal(30,2)": ["null", "0BD", "1.00BD"],
    "x binary": ["null", "X''", "X'00'", "X'61'"],
    "y date": ["null", "date'1970-01-01'", "date'1970-01-02'"],
    "z timestamp": ["null", "timestamp'1970-01-01 00:00:00Z'"],
    "s struct<p:string,q:double>": [
        "null",
        "named_struct('p', cast(null as string), 'q', cast(null as double))",
        "named_struct('p', cast(null as string), 'q', double('NaN'))",
        "named_struct('p', '', 'q', 0D)",
        "named_struct('p', '', 'q', double('-0.0'))",
    ],
    "e array<string>": ["null", "array()", "array(null)", "array('a', null)", "array(null, 'a')"],
    "m map<string,string>": ["null", "map()", "map('a', null)", "map('a', '')", "map('', 'a')"],
    "v variant": ["null", "parse_json('null')", "parse_json('{}')", "parse_json('{\"value\":1}')",
                  "parse_json('1')"],
}  # fmt: skip
ROWS = 600

Compute = Callable[[Cells], Column]
BOTH: list[Compute] = [compute_fingerprint, compute_choice]


@pytest.mark.parametrize("compute", BOTH)
def test_equal_fingerprints_and_equal_documents_come_together(
    lake: Lake, rng: random.Random, compute: Compute
) -> None:
    name = lake.create(f"{', '.join(VALUES)}, id int", version=3)
    lake.sql(f"insert into lake.{name} values {', '.join(_draw_rows(rng))}")
    table, at = lake.load_table(name), lake.read_head(name)
    columns = tuple(column.split()[0] for column in VALUES)

    pairs = _read_pairs(lake, table, lake.resolve_spec(name, at, columns=columns), at, compute)

    by_document, by_fingerprint = defaultdict(set), defaultdict(set)
    for document, number in pairs:
        by_document[document].add(number)
        by_fingerprint[number].add(document)
    assert len(by_document) > 100, "the rows must differ for the test to say anything"
    assert {
        document: numbers for document, numbers in by_document.items() if len(numbers) > 1
    } == {}
    assert {n: documents for n, documents in by_fingerprint.items() if len(documents) > 1} == {}


@pytest.mark.parametrize("compute", BOTH)
def test_of_many_columns_each_counts_by_being_null(lake: Lake, compute: Compute) -> None:
    columns = tuple(f"c{number}" for number in range(130))
    name = lake.create("id bigint, " + ", ".join(f"{column} int" for column in columns))
    cells = ", ".join(f"if(id = {number}, 0, null)" for number in range(130))
    lake.sql(f"insert into lake.{name} select id, {cells} from range(131)")
    table, at = lake.load_table(name), lake.read_head(name)

    pairs = _read_pairs(lake, table, lake.resolve_spec(name, at, columns=columns), at, compute)

    assert len({number for _, number in pairs}) == 131


@pytest.mark.parametrize("strategy", [Strategy.ONE_READ, Strategy.TWO_READS])
def test_an_update_by_values_chosen_for_their_hash_is_written(
    lake: Lake, strategy: Strategy
) -> None:
    before, after = (100, 5), (999_999, find_duplicate(100, 5, 999_999))
    name = lake.create("id int, a bigint, b bigint")
    lake.sql(f"insert into lake.{name} values (1, {before[0]}, {before[1]}), (2, 0, 0)")
    since = lake.read_head(name)
    lake.sql(f"update lake.{name} set a = {after[0]}, b = {after[1]} where id = 1")
    columns, table = ("a", "b"), lake.load_table(name)
    ((_, old),) = (
        pair
        for pair in _read_pairs(lake, table, lake.resolve_spec(name, since, columns=columns), since)
        if "100" in pair[0]
    )
    pairs = _read_pairs(lake, table, lake.resolve_spec(name, columns=columns), lake.read_head(name))
    assert old in {number for _, number in pairs}, "without a salt both rows look alike"

    batch = lake.diff(name, since, strategy=strategy, columns=columns)

    assert batch.ops == [Op("u", "1", f'{{"a":{after[0]},"b":{after[1]}}}')]


def test_the_row_of_a_key_stays_chosen_when_columns_are_added_moved_or_widened(lake: Lake) -> None:
    name = lake.create("id int, n int, d decimal(9,2), s struct<a:int>")
    lake.sql(
        f"insert into lake.{name} select id, n, n, named_struct('a', n) from range(20) "
        "lateral view explode(array(1, 2, 3)) as n"
    )
    before = _look_up_all(lake, name)
    lake.sql(f"alter table lake.{name} add columns (x string, s.b int)")
    lake.sql(f"alter table lake.{name} alter column d first")
    for column, kind in (("n", "bigint"), ("d", "decimal(12,2)"), ("s.a", "bigint")):
        lake.sql(f"alter table lake.{name} alter column {column} type {kind}")
    lake.sql(f"insert into lake.{name} (id, n) values (99, 1)")

    after = _look_up_all(lake, name)
    assert {after[identity]["n"] for identity in before} == {1, 2, 3}
    assert {identity: after[identity] for identity in before} == before


def _look_up_all(lake: Lake, name: str) -> dict[str, dict[str, object]]:
    """Return the documents of the current snapshot by id."""
    table, at = lake.load_table(name), lake.read_head(name)
    spec = lake.resolve_spec(name, at)
    with open_reader(lake.session, table, at, spec) as reader:
        batch = parse(look_up_all(reader, spec, version=VERSION))
    return {op.id: json.loads(op.doc or "") for op in batch.ops}


def test_keys_chosen_so_that_their_hashes_cancel_out_do_not_with_a_salt(lake: Lake) -> None:
    def compute_hashes(expression: str) -> list[int]:
        frame = lake.session.range(200).selectExpr("id as k", "bigint(7) as age")
        return [row[0] for row in frame.selectExpr(expression).collect()]

    plain = compute_hashes("xxhash64(k, age)")
    chosen = find_cancelling(plain)
    assert chosen
    assert functools.reduce(operator.xor, (plain[at] for at in chosen)) == 0
    salted = compute_hashes(key_bitmaps.build_hash_sql(["k", "age"], salt="1234567"))
    assert functools.reduce(operator.xor, (salted[at] for at in chosen)) != 0


def _draw_rows(rng: random.Random) -> list[str]:
    """Return rows with each value once among nulls, then rows that differ little."""
    empty = ["null"] * len(VALUES)
    made = [empty]
    for at, values in enumerate(VALUES.values()):
        made += [[*empty[:at], value, *empty[at + 1 :]] for value in values]
    while len(made) < ROWS:
        row = list(rng.choice(made))
        for at in rng.sample(range(len(VALUES)), 2):
            row[at] = rng.choice(list(VALUES.values())[at])
        made.append(row)
    return [f"({', '.join(row)}, {number})" for number, row in enumerate(made)]


def _read_pairs(
    lake: Lake,
    table: IcebergTable,
    spec: DocumentSpec,
    at: int,
    compute: Compute = compute_fingerprint,
) -> list[tuple[str, int]]:
    (chunk,) = plan_export(table, at, target_bytes=1 << 30, target_rows=1 << 30).iterate_chunks()
    with open_reader(lake.session, table, at, spec) as reader:
        rows = select_cells(reader.read(chunk.group), spec, compared=False)
        number = compute([(column, F.col(name_cell(at))) for at, column in enumerate(spec.columns)])
        collected = rows.select(build_document(spec)[0], number).collect()
    return [(document, number) for document, number in collected]


MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
"""The primes of xxHash."""


def find_duplicate(first: int, second: int, other: int) -> int:
    """Return the number that has with `other` the same hash as `first` with `second`."""
    flags = hash_bigint(0, 42)
    wanted = hash_bigint(second, hash_bigint(first, flags))
    unsigned = invert_hash(wanted, hash_bigint(other, flags))
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned


def hash_bigint(number: int, seed: int) -> int:
    """Compute Spark's xxhash64 of a bigint."""
    mixed = ((seed + P5 + 8) & MASK) ^ (rotate_left(number * P2 & MASK, 31) * P1 & MASK)
    last = (rotate_left(mixed, 27) * P1 + P4) & MASK
    last = (last ^ (last >> 33)) * P2 & MASK
    last = (last ^ (last >> 29)) * P3 & MASK
    return last ^ (last >> 32)


def invert_hash(wanted: int, seed: int) -> int:
    """Return the number of which `hashed` gives what is wanted: every step can be undone."""
    last = invert_shift(wanted, 32) * pow(P3, -1, 1 << 64) & MASK
    last = invert_shift(last, 29) * pow(P2, -1, 1 << 64) & MASK
    last = (invert_shift(last, 33) - P4) * pow(P1, -1, 1 << 64) & MASK
    mixed = rotate_left(last, 64 - 27) ^ ((seed + P5 + 8) & MASK)
    return rotate_left(mixed * pow(P1, -1, 1 << 64) & MASK, 64 - 31) * pow(P2, -1, 1 << 64) & MASK


def rotate_left(number: int, bits: int) -> int:
    return ((number << bits) | (number >> (64 - bits))) & MASK


def invert_shift(number: int, bits: int) -> int:
    original = number
    for _ in range(64 // bits + 1):
        original = number ^ (original >> bits)
    return original


def find_cancelling(numbers: list[int]) -> set[int]:
    """Positions of numbers whose exclusive or is zero: more than 64 of them are never independent,
    as elimination shows bit by bit."""
    pivots: dict[int, tuple[int, set[int]]] = {}
    for at, number in enumerate(numbers):
        rest, used = number & MASK, {at}
        while rest:
            top = rest.bit_length()
            if top not in pivots:
                pivots[top] = (rest, used)
                break
            rest, used = rest ^ pivots[top][0], used ^ pivots[top][1]
        else:
            return used
    return set()
