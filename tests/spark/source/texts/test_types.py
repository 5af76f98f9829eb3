"""Every type's text, in documents and ids, by export and by changelog."""

import hashlib
import json
from unittest import mock

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from icdc_api.errors import UnsupportedType
from icdc_operator.cluster.heads.reader.branches import parse_file
from icdc_operator.cluster.heads.reader.metadata_files import read
from icdc_spark.diff.strategies import Strategy
from icdc_spark.documents.document_spec import resolve_spec
from icdc_spark.documents.ids import build_routing, join_key
from icdc_spark.documents.mapping import build_index_mapping
from icdc_spark.documents.schema import Field, parse_schema
from icdc_spark.documents.serialise import build_index_line, serialise_document
from icdc_spark.documents.wishes import DocumentWishes
from icdc_testing.lake.catalogs.readers import ON_LOOPBACK
from icdc_testing.lake.document_examples import IDS as KEYS
from icdc_testing.lake.document_examples import VALUES as EXAMPLES
from icdc_testing.lake.document_examples import build_schema
from icdc_testing.lake.lake import Lake, Op
from icdc_testing.lake.typed_values import VALUES
from icdc_testing.tables.fields import derive, parse_fields
from icdc_testing.target.node_calls import call

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("whole_stage_codegen")]


def test_every_type_has_the_text_of_the_table_by_export_and_by_changelog(lake: Lake) -> None:
    columns = ", ".join(f"`c{at}` {kind}" for at, (kind, _, _) in enumerate(VALUES))
    name = lake.create(f"id int, {columns}", version=3)
    some = ", ".join(f"{sql} c{at}" for at, (_, sql, _) in enumerate(VALUES))
    none = ", ".join(f"cast(null as {kind}) c{at}" for at, (kind, _, _) in enumerate(VALUES))
    lake.sql(f"insert into lake.{name} select 1 id, {none} union all select 2, {none}")
    since = lake.read_head(name)
    lake.sql(f"insert overwrite lake.{name} select 1 id, {some} union all select 2, {none}")
    fields = "".join(f',"c{at}":{text}' for at, (_, _, text) in enumerate(VALUES) if text)

    (exported,) = lake.export(name)

    assert [op.doc for op in exported.ops] == [f'{{"id":1{fields}}}', '{"id":2}']
    assert exported.counts.non_finite == 8
    for strategy in (Strategy.ONE_READ, Strategy.TWO_READS):
        changed = lake.diff(name, since, strategy=strategy)
        assert changed.ops == [Op("u", "1", exported.ops[0].doc)]
        assert changed.counts.non_finite == 8
    assert [op.doc for op in lake.diff(name, None).ops] == [op.doc for op in exported.ops]


def test_a_refused_row_of_every_type_is_shown_as_its_document_would_be(lake: Lake) -> None:
    columns = ", ".join(f"`c{at}` {kind}" for at, (kind, _, _) in enumerate(VALUES))
    name = lake.create(f"id int, {columns}", version=3)
    lake.sql(f"insert into lake.{name} select 1, {', '.join(sql for _, sql, _ in VALUES)}")
    ((document,), _) = lake.export(name)[0]
    # The second is evaluated only to tell that it is not the one.
    failing = parse_fields("*", derive("right", "id + 1"), derive("wrong", "1 / (id - 1)"))
    refused = Op("n", "1", document.doc, failed="wrong")
    assert lake.export(name, fields=failing)[0].ops == [refused]


def test_the_operator_sees_the_head_of_a_table_with_every_type_of_spark(lake: Lake) -> None:
    columns = ", ".join(f"`c{at}` {kind}" for at, (kind, _, _) in enumerate(VALUES))
    name = lake.create(f"id int, {columns}", version=3)
    lake.sql(f"insert into lake.{name} (id) values (1)")
    file = lake.load_table(name).java.operations().current().metadataFileLocation()
    assert parse_file(read({}, file, ON_LOOPBACK)) == {"main": lake.read_head(name)}


def test_documents_are_those_of_the_page_and_opensearch_returns_them(
    spark: SparkSession, clean_indices: str
) -> None:
    schema = build_schema([example.kind for example in EXAMPLES])
    cells = [(at, F.expr(one.sql)) for at, one in zip(schema.fields, EXAMPLES, strict=True)]
    keys = [
        *(([(cell, at)], one.identifier) for (at, cell), one in zip(cells, EXAMPLES, strict=True)),
        *(([(F.expr(s), parse_field(k)) for k, s in one.columns], one.identifier) for one in KEYS),
    ]
    keys = [(columns, identifier) for columns, identifier in keys if identifier is not None]
    made = serialise_document(cells)
    line = build_index_line([F.lit("42").alias("_id")], made, version=1)
    ids = F.array(*(join_key(columns) for columns, _ in keys))

    source, lines, identifiers = spark.range(1).select(made, line, ids).collect()[0]

    shown = [f'"c{at}":{one.source}' for at, one in enumerate(EXAMPLES) if one.source]
    assert source == f"{{{','.join(shown)}}}"
    assert identifiers == [identifier for _, identifier in keys]
    spec = resolve_spec("shop.all", schema, DocumentWishes(identifier_columns=("c1",)))
    mapping = build_index_mapping(spec, table_uuid="u")
    call(clean_indices, "PUT", "/all-000001", {"mappings": mapping})
    assert call(clean_indices, "POST", "/all-000001/_bulk", bytes(lines)).json["errors"] is False
    assert call(clean_indices, "GET", "/all-000001/_source/42").body.decode() == source
    stored = call(clean_indices, "GET", "/all-000001/_mapping").json
    assert stored == {"all-000001": {"mappings": mapping}}


def hash_id(text: str | bytes) -> str:
    """Return the hash that replaces an id that is too long, or no text."""
    plain = text.encode() if isinstance(text, str) else text
    return "\\H" + hashlib.sha256(plain).hexdigest()


# type of the one identifier column, its value in SQL, the id
IDS = [
    ("boolean", "true", "true"),
    ("int", "-5", "-5"),
    ("bigint", "9223372036854775807L", "9223372036854775807"),
    ("decimal(38,10)", "cast('0.0000001' as decimal(38,10))", "0.0000001000"),
    ("date", "date'0001-01-01'", "0001-01-01"),
    ("timestamp", "timestamp'2024-03-15 14:30:00Z'", "2024-03-15T14:30:00.000000Z"),
    ("timestamp_ntz", "timestamp_ntz'2024-03-15 14:30:00.5'", "2024-03-15T14:30:00.500000"),
    ("binary", "X'00ff10'", "AP8Q"),
    ("binary", f"X'{'00ff10' * 30}'", "AP8Q" * 30),
    ("binary", "X''", "\\E"),
    ("string", "'a b'", "a b"),
    ("string", "''", "\\E"),
    ("string", "cast(null as string)", "\\N"),
    ("string", r"'\\N'", r"\\N"),
    ("string", r"'a|b\\c'", r"a\|b\\c"),
    ("string", "repeat('x', 512)", "x" * 512),
    ("string", "repeat('é', 256)", "é" * 256),
    ("string", "repeat('x', 513)", hash_id("x" * 513)),
    ("string", "repeat('é', 257)", hash_id("é" * 257)),
    ("string", "repeat('|', 257)", hash_id("\\|" * 257)),
    ("string", "cast(x'ff41' as string)", hash_id(b"\xffA")),
    ("string", "cast(x'fe7c' as string)", hash_id(b"\xfe\\|")),
    ("string", "'\\ufffd'", "\ufffd"),
]


def test_ids_of_one_column(lake: Lake, spark: SparkSession) -> None:
    kinds = {"timestamp": "timestamptz", "timestamp_ntz": "timestamp", "bigint": "long"}
    rows = spark.range(1)
    made = [
        join_key([(F.expr(sql), parse_field(kinds.get(kind, kind)))]).alias(f"c{at}")
        for at, (kind, sql, _) in enumerate(IDS)
    ]
    assert list(rows.select(*made).collect()[0]) == [text for _, _, text in IDS]


# values of the key columns (a string, s.b string) in SQL, the id
JOINED = [
    ("'a'", "'b'", "a|b"),
    ("'a|'", "'b'", r"a\||b"),
    ("'a'", "'|b'", r"a|\|b"),
    ("''", "''", "|"),
    ("null", "''", r"\N|"),
    ("''", "null", r"|\N"),
    ("null", "null", r"\N|\N"),
    (r"'\\N'", "null", r"\\N|\N"),
    ("repeat('x', 300)", "repeat('y', 300)", hash_id("x" * 300 + "|" + "y" * 300)),
]


LONG = "repeat('y', 600)"
# positions of the routing among the key's columns (a, s.b), their values in SQL, id and routing
ROUTED = [
    ((0,), "'a'", "'b'", "a|b", "a"),
    ((1,), "'a'", "'b'", "a|b", "b"),
    ((1, 0), "'a'", "'b'", "a|b", "b|a"),
    ((0,), r"'a|\\'", "'|b'", r"a\|\\|\|b", r"a\|\\"),
    ((1,), r"'\\|'", r"'|\\'", r"\\\||\|\\", r"\|\\"),
    ((0,), "''", "'b'", "|b", "\\E"),
    ((0,), "null", "'b'", r"\N|b", r"\N"),
    ((0,), r"'\\H'", "'b'", r"\\H|b", r"\\H"),
    ((0,), "'a\nb'", "'c'", "a\nb|c", "a\nb"),
    ((0,), "'a,b é'", "'c'", "a,b é|c", "a,b é"),
    ((0, 1), "''", "''", "|", "|"),
    ((0,), "repeat('x', 445)", "'b'", "x" * 445 + "|b", "x" * 445),
    ((0,), "repeat('x', 446)", "'b'", "x" * 446 + "|b", hash_id("x" * 446)),
    ((0,), "'a|'", LONG, hash_id(r"a\||" + "y" * 600) + r"|a\|", r"a\|"),
    ((1,), LONG, "''", hash_id("y" * 600 + "|") + r"|\E", r"\E"),
    (
        (0,),
        "repeat('é', 222)",
        LONG,
        f"{hash_id('é' * 222 + '|' + 'y' * 600)}|{'é' * 222}",
        "é" * 222,
    ),
    (
        *((0,), "cast(x'ff' as string)", "'b'"),
        hash_id(b"\xff|b") + "|" + hash_id(b"\xff"),
        hash_id(b"\xff"),
    ),
    ((1,), "cast(x'ff' as string)", "'b'", hash_id(b"\xff|b") + "|b", "b"),
    (
        *((0,), "repeat('é', 223)", LONG),
        f"{hash_id('é' * 223 + '|' + 'y' * 600)}|{hash_id('é' * 223)}",
        hash_id("é" * 223),
    ),
]


def test_the_routing_of_a_document_is_made_of_its_id(spark: SparkSession) -> None:
    fields = [parse_field("string")] * 2
    made = []
    for routing, a, b, _, _ in ROUTED:
        spec = mock.Mock(identifiers=[(one,) for one in fields], routing=routing)
        identity = join_key(list(zip((F.expr(a), F.expr(b)), fields, strict=True)), routing)
        made.append(F.array(identity, build_routing(identity, spec)))
    (row,) = spark.range(1).select(*[one.alias(f"c{at}") for at, one in enumerate(made)]).collect()
    assert [tuple(one) for one in row] == [(identity, route) for *_, identity, route in ROUTED]
    assert all(len(identity.encode()) <= 512 for identity, _ in row)


def test_ids_of_several_columns_one_of_them_nested(lake: Lake) -> None:
    name = lake.create("a string, s struct<b:string>, n int")
    rows = ", ".join(
        f"({a}, named_struct('b', {b}), {number})" for number, (a, b, _) in enumerate(JOINED)
    )
    lake.sql(f"insert into lake.{name} values {rows}")

    (batch,) = lake.export(name, identifier_columns=("a", "s.b"), columns=("n",))

    ids = {json.loads(op.doc or "")["n"]: op.id for op in batch.ops}
    assert ids == {number: text for number, (_, _, text) in enumerate(JOINED)}


def test_uuid_and_fixed_columns_as_other_writers_make_them(lake: Lake) -> None:
    name = lake.create("id int, h binary")
    add_columns(lake, name, {"u": "uuid", "f": "fixed[3]"})
    lake.sql(
        f"insert into lake.{name} (id, u, f) values "
        "(1, 'F79C3E09-677C-4BBD-A479-3F349CB785E7', X'00ff10')"
    )

    (batch,) = lake.export(name, identifier_columns=("u", "f"))

    text = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
    assert batch.ops == [Op("c", f"{text}|AP8Q", f'{{"id":1,"u":"{text}","f":"AP8Q"}}')]


@pytest.mark.parametrize("kind", ["geometry", "geography", "unknown"])
def test_a_column_without_a_text_is_refused_unless_projected_away(lake: Lake, kind: str) -> None:
    name = lake.create("id int, a string", version=3)
    lake.sql(f"insert into lake.{name} values (1, 'x')")
    add_columns(lake, name, {"strange": kind})
    since = lake.read_head(name)
    add_row_file(lake, name, 2)

    with pytest.raises(UnsupportedType, match=rf"column `strange` has the type {kind}"):
        lake.resolve_spec(name)

    (batch,) = lake.export(name, columns=("id", "a"))
    assert batch.short == [("c", "1"), ("c", "2")]
    assert lake.diff(name, since, columns=("id", "a")).ops == [Op("c", "2", '{"id":2}')]


def parse_field(kind: str) -> Field:
    """Return a field of the Iceberg type with this name."""
    schema = parse_schema(
        json.dumps({"fields": [{"id": 1, "name": "k", "required": False, "type": kind}]})
    )
    return schema.fields[0]


def add_columns(lake: Lake, name: str, columns: dict[str, str]) -> None:
    """Add columns of types that Spark SQL does not have."""
    table = lake.load_table(name)
    change = table.java.updateSchema()
    for column, kind in columns.items():
        change = change.addColumn(
            column, table.bridge.jvm.org.apache.iceberg.types.Types.fromPrimitiveString(kind)
        )
    change.commit()


def add_row_file(lake: Lake, name: str, identity: int) -> None:
    """Append a row with only its `id`, by Iceberg's own writer: Spark cannot write the table."""
    table = lake.load_table(name)
    iceberg, java = table.bridge.jvm.org.apache.iceberg, table.java
    position = java.io().newOutputFile(f"{java.location()}/data/extra-{identity}.parquet")
    output = iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(position)
    factory = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(java).build()
    writer = factory.newDataWriter(output, java.spec(), None)
    row = iceberg.data.GenericRecord.create(java.schema())
    row.setField("id", identity)
    writer.write(row)
    writer.close()
    java.newAppend().appendFile(writer.toDataFile()).commit()
