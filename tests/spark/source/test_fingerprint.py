"""Two rows have one fingerprint exactly when they have one document."""

import random
from collections import defaultdict

import pytest

from icdc_spark.diff.plan import plan_export
from icdc_spark.diff.rows import FINGERPRINT, whole, written_of
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.iceberg.tables import IcebergTable
from icdc_spark.readers.choose import open_reader
from support_lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

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


def test_equal_fingerprints_and_equal_documents_come_together(
    lake: Lake, rng: random.Random
) -> None:
    name = lake.create(f"{', '.join(VALUES)}, id int", version=3)
    lake.sql(f"insert into lake.{name} values {', '.join(_rows(rng))}")
    table, at = lake.table(name), lake.head(name)
    columns = tuple(column.split()[0] for column in VALUES)

    pairs = _pairs(lake, table, lake.spec(name, at, columns=columns), at)

    by_document, by_fingerprint = defaultdict(set), defaultdict(set)
    for document, number in pairs:
        by_document[document].add(number)
        by_fingerprint[number].add(document)
    assert len(by_document) > 100, "the rows must differ for the test to say anything"
    assert {
        document: numbers for document, numbers in by_document.items() if len(numbers) > 1
    } == {}
    assert {n: documents for n, documents in by_fingerprint.items() if len(documents) > 1} == {}


def test_of_many_columns_each_counts_by_being_null(lake: Lake) -> None:
    columns = tuple(f"c{number}" for number in range(130))
    name = lake.create("id bigint, " + ", ".join(f"{column} int" for column in columns))
    cells = ", ".join(f"if(id = {number}, 0, null)" for number in range(130))
    lake.sql(f"insert into lake.{name} select id, {cells} from range(131)")
    table, at = lake.table(name), lake.head(name)

    pairs = _pairs(lake, table, lake.spec(name, at, columns=columns), at)

    assert len({number for _, number in pairs}) == 131


def _rows(rng: random.Random) -> list[str]:
    """Every value once on its own among nulls, then rows of few differences."""
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


def _pairs(lake: Lake, table: IcebergTable, spec: DocumentSpec, at: int) -> list[tuple[str, int]]:
    (chunk,) = plan_export(table, at, target_bytes=1 << 30, target_rows=1 << 30)
    with open_reader(lake.session, table, at, spec) as reader:
        rows = whole(reader.read(chunk.group), spec)
        found = rows.select(written_of(spec)[0].alias("document"), FINGERPRINT).collect()
    return [(row["document"], row[FINGERPRINT]) for row in found]
