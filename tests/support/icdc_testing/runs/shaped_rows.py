"""Shape the rows of tables that are killed: names, expressions of which one fails, and routing."""

from collections.abc import Mapping
from typing import Any

from icdc_testing.tables.fields import derive, take
from icdc_testing.target.oracle import Document

ENTRY: dict[str, Any] = {
    "routing": ["id"],
    "fields": [
        take("key.id", "id"),
        take("pad", "pad"),
        derive("key.turn", "turn + 1"),
        derive("share", "100 / (id % 40)"),
    ],
}
"""What a table's entry in the spec has beside its name."""


def shape(rows: Mapping[str, Document]) -> dict[str, Document]:
    """Return the documents of rows by id; a dead letter is in the place of every fortieth."""
    return {
        key: {
            "key": {"id": row["id"], "turn": row["turn"] + 1},
            "pad": row["pad"],
            "share": 100 / (row["id"] % 40),
        }
        for key, row in rows.items()
        if row["id"] % 40
    }
