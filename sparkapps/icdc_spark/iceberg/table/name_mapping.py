"""Read the name mapping of a table: how columns are found in files that have no field ids.

Such files were brought into the table as they were (`add_files`, `migrate`). The mapping belongs to
the table, not to a file or a snapshot, so it also says what a column shows in files that are older
than the column. Example, files with `id`, `name` and `extra`, of a table with `id` and `name`:

    columns of the table    mapping                        the old rows show
    id, name                1: id, 2: name                 id and name
    id, name, extra         1: id, 2: name, 3: extra       id, name and extra

Iceberg extends the mapping by itself when a column is added. Pure.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

NAME_MAPPING = "schema.name-mapping.default"


def list_mapped_fields(properties: Mapping[str, str]) -> frozenset[int]:
    """Return the ids of the fields that are found by name; none without a valid mapping."""
    # A text that is no such mapping is refused by whatever opens a file.
    with suppress(AttributeError, TypeError, ValueError):
        return frozenset(_list_ids(json.loads(properties.get(NAME_MAPPING) or "[]")))
    return frozenset()


def _list_ids(entries: Any) -> Iterator[int]:
    for entry in entries:
        # An entry without an id stands for a column of files that the table does not have.
        if entry.get("field-id") is not None and entry.get("names"):
            yield int(entry["field-id"])
        yield from _list_ids(entry.get("fields") or ())
