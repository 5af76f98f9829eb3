"""Change the shape of a table: its columns, partitions, format version, all of it at once."""

from collections.abc import Callable, Mapping
from typing import Any

from icdc_testing.lake.schemas import build_schema_json
from icdc_testing.tables.histories.columns import KEY, PART, TEXT
from icdc_testing.tables.histories.history import TableHistory, list_rows
from icdc_testing.tables.histories.rows import Description

_TYPES = build_schema_json({"int": "int", "long": "long", "double": "double", "string": "string"})

Step = Callable[[Any, "Donor"], Any]
"""One change of the schema, given an `UpdateSchema` and types and literals for it."""


class Donor:
    """Java types and literals."""

    def __init__(self, history: TableHistory) -> None:
        bridge = history.table.bridge
        self._types = bridge.get_statics("org.apache.iceberg.SchemaParser").fromJson(_TYPES)
        self._literals = bridge.get_statics("org.apache.iceberg.expressions.Expressions")

    def find_type(self, name: str) -> Any:
        """Return a primitive type."""
        return self._types.findType(name)

    def make_literal(self, value: object) -> Any:
        """Return a literal."""
        return self._literals.lit(value)


EVOLUTION: tuple[tuple[str, int, Step], ...] = (
    ("add a column", 1, lambda it, of: it.addColumn("extra", of.find_type("int"))),
    ("widen int to long", 1, lambda it, of: it.updateColumn("i", of.find_type("long"))),
    ("rename", 1, lambda it, _: it.renameColumn("d", "renamed")),
    (
        "add a column with a default",
        3,
        lambda it, of: it.addColumn("given", of.find_type("string"), of.make_literal("x")),
    ),
    ("drop", 1, lambda it, _: it.deleteColumn("i")),
    ("add another of that name", 1, lambda it, of: it.addColumn("i", of.find_type("double"))),
    ("put another first", 1, lambda it, _: it.moveFirst(TEXT)),
)
"""The changes in their order, with the format version that each needs: all histories take the same
steps, each at times of its own, so that columns that are alike have ids that are alike."""


def evolve_schema(history: TableHistory) -> Description:
    """Make the next change of the columns. Without a snapshot: it shows with the next one."""
    steps = [step for step in EVOLUTION if step[1] <= history.kind.version]
    # In one order for all histories: pairs with equal columns can then be evaluated together.
    if history.evolved == len(steps):
        return None
    said, _, step = steps[history.evolved]
    step(history.java.updateSchema(), Donor(history)).commit()
    history.evolved += 1
    return f"schema: {said}"


def evolve_partitions(history: TableHistory) -> Description:
    """Add or remove one partition field; files that are there keep theirs."""
    terms = history.table.bridge.get_statics("org.apache.iceberg.expressions.Expressions")
    present: Mapping[str, str] = {
        part["transform"]: part["name"] for part in history.files.read_spec()["fields"]
    }
    wanted = {
        "identity": (PART, terms.ref(PART)),
        "bucket[2]": (KEY, terms.bucket(KEY, 2)),
        "truncate[1]": (TEXT, terms.truncate(TEXT, 1)),
    }
    chosen = history.rng.choice(list(wanted))
    column, term = wanted[chosen]
    update = history.java.updateSpec()
    if chosen in present:
        update.removeField(present[chosen]).commit()
        return f"no longer partitioned by {chosen}"
    if history.version >= 2 and _has_void_field(history, column):
        return None
    update.addField(term).commit()
    return f"partitioned by {chosen} too"


def _has_void_field(history: TableHistory, column: str) -> bool:
    """Return whether a field of this column was removed before an upgrade.

    Its id stays in the spec, with the transform void. Iceberg would give the id a second time, and
    could then read no manifest.
    """
    source = next(entry.id for entry in history.columns if entry.name == column)
    return any(
        part["transform"] == "void" and part["source-id"] == source
        for part in history.files.read_spec()["fields"]
    )


def upgrade(history: TableHistory) -> Description:
    """Upgrade to the next format version; files that are there stay as they are."""
    if not history.kind.upgrades or history.version == 3:
        return None
    to = history.version + 1
    history.java.updateProperties().set("format-version", str(to)).commit()
    return f"upgrade to v{to}"


def replace_table(history: TableHistory) -> Description:
    """CREATE OR REPLACE from some of the table's own rows: a new beginning with the old columns."""
    schema = history.java.schema()
    builder = history.catalog.buildTable(history.identifier, schema)
    bridge = history.table.bridge
    builder = builder.withPartitionSpec(history.draw_spec(bridge, schema))
    transaction = builder.replaceTransaction()
    retained = [row for row in list_rows(history.live) if history.rng.random() < 0.7]
    transaction.commitTransaction()
    history.java.refresh()
    history.live = {}
    new = history.files.write_data([(row, (None, None)) for row in retained], history.columns)
    update = history.java.newAppend()
    for stored in new:
        update = update.appendFile(stored.java)
    history.commit(update, new=new)
    return f"replace table, {len(retained)} rows"
