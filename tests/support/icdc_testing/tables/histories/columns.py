"""Define the columns of random histories, and random values of every type.

Values are Python's own (structs as rows of pyspark), as the oracle takes them. There are few of
each type, so that a change often gives a row what it has, or what another row has.
"""

import datetime as dt
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
from pyspark.sql import Row
from pyspark.sql.types import VariantVal

Cells = Mapping[int, Any]
"""One row: values by field id, without the columns that were added after it was written."""

HISTORY, KEY, PART, TEXT = "h", "id", "p", "s"
"""Columns that every table has and that are never dropped: number of the history and key, which
together are the identifier, a partition source, and a text."""

PLAIN: Mapping[str, Any] = {
    HISTORY: "int", KEY: "int", PART: "int", TEXT: "string", "i": "int", "d": "double"
}  # fmt: skip

EVERY: Mapping[str, Any] = {
    **PLAIN,
    "flag": "boolean",
    "n": "long",
    "f": "float",
    "dec": "decimal(9, 2)",
    "day": "date",
    "at": "timestamptz",
    "local": "timestamp",
    "bin": "binary",
    "fix": "fixed[2]",
    "uid": "uuid",
    "st": {
        "type": "struct",
        "fields": [
            {"id": 101, "name": "x", "type": "int", "required": False},
            {"id": 102, "name": "y", "type": "binary", "required": False},
        ],
    },
    "li": {"type": "list", "element-id": 103, "element": "double", "element-required": False},
    "ma": {
        "type": "map",
        "key-id": 104,
        "key": "string",
        "value-id": 105,
        "value": "decimal(5, 1)",
        "value-required": False,
    },
    "var": "variant",
    "vars": {
        "type": "list", "element-id": 106, "element": "variant", "element-required": False
    },
}  # fmt: skip

TEXTS: Mapping[str, Any] = {**PLAIN, "time": "time", "ns": "timestamp_ns"}
"""With columns for which Spark refuses the whole table: they are read by other means, as text."""

_NAN, _ZERO = float("nan"), -0.0
_DAYS = (dt.date(1, 1, 1), dt.date(2024, 3, 15), dt.date(9999, 12, 31))
_TIMES = (dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 3, 15, 14, 30))
_UUIDS = (UUID(int=1), UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"))

_CHOICES: Mapping[str, Sequence[Any]] = {
    "boolean": (True, False),
    "int": (0, 1, 2),
    "long": (0, 2**63 - 1, -1),
    "float": (0.0, 0.5, _ZERO, _NAN),
    "double": (0.0, _ZERO, 1.5, 1e20, _NAN, float("inf")),
    "decimal": (Decimal("0.0"), Decimal("-1.5"), Decimal("22.5")),
    "date": _DAYS,
    "timestamp": _TIMES,
    "time": (dt.time(), dt.time(23, 59, 59, 999999)),
    "timestamp_ns": (np.datetime64(-1, "ns"), np.datetime64("2024-03-15T14:30", "ns")),
    "timestamptz": tuple(moment.replace(tzinfo=dt.UTC) for moment in _TIMES),
    "string": ("x", "y", "", 'q"\\\n'),
    "binary": (b"", b"\x00\xff", b"x"),
    "fixed": (b"\x00\x01", b"xy"),
    "uuid": _UUIDS,
    # Some are of the same document, in other bytes.
    "variant": tuple(
        map(
            VariantVal.parseJson,
            ("null", '{"value": null}', "{}", "1.50", "1.5", '{"b": [true, {}], "a": 1.50}',
             '{"a": 1.5, "b": [true, {}]}', '"{x"'),
        )
    ),
}  # fmt: skip
_NULLS = 0.15
_OF_V3 = ("timestamp_ns", "variant")

_PARSED: Mapping[str, Callable[[Any], Any]] = {
    "float": float,
    "double": float,
    "decimal": Decimal,
    "date": dt.date.fromisoformat,
    "timestamp": dt.datetime.fromisoformat,
    "timestamptz": dt.datetime.fromisoformat,
    "time": dt.time.fromisoformat,
    "timestamp_ns": lambda raw: np.datetime64(raw, "ns"),
    "binary": bytes.fromhex,
    "fixed": bytes.fromhex,
    "uuid": UUID,
}
"""Parsers of Iceberg's JSON form, for types where that is not the value."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column as it is now; `type` and `default` as Iceberg's JSON has them."""

    id: int
    name: str
    type: Any
    default: Any

    @property
    def has_variants(self) -> bool:
        """True if values are variants, or lists of them."""
        return self.type == "variant" or (
            isinstance(self.type, dict) and self.type.get("element") == "variant"
        )


def parse_columns(schema: str) -> tuple[Column, ...]:
    """Return the columns of a schema in Iceberg's JSON."""
    return tuple(
        Column(id=raw["id"], name=raw["name"], type=raw["type"], default=raw.get("initial-default"))
        for raw in json.loads(schema)["fields"]
    )


def find_first_version(kind: Any) -> int:
    """Return the first format version that has this type, and those in it."""
    text = json.dumps(kind)
    return 3 if any(f'"{word}"' in text for word in _OF_V3) else 1


def draw_value(rng: random.Random, kind: Any) -> Any:
    """Return a random value of a type in Iceberg's JSON, now and then null."""
    if rng.random() < _NULLS:
        return None
    match kind:
        case {"type": "struct"}:
            return Row(
                **{entry["name"]: draw_value(rng, entry["type"]) for entry in kind["fields"]}
            )
        case {"type": "list"}:
            return [draw_value(rng, kind["element"]) for _ in range(rng.randrange(3))]
        case {"type": "map"}:
            keys = rng.sample(_CHOICES["string"], rng.randrange(3))
            return {key: draw_value(rng, kind["value"]) for key in keys}
        case _:
            return _fit_scale(rng.choice(_CHOICES[_strip_parameters(kind)]), kind)


def show_row(cells: Cells, of: Sequence[Column]) -> dict[str, Any]:
    """Return a row as a reader sees it under these columns, values by name."""
    return {column.name: cells.get(column.id, column.default) for column in of}


def convert_to_arrow(value: Any) -> Any:
    """Return a value as pyarrow takes it."""
    match value:
        case UUID():
            return value.bytes
        case VariantVal():
            return {"metadata": value.metadata, "value": value.value}
        case Row():
            return {name: convert_to_arrow(item) for name, item in value.asDict().items()}
        case dict():
            return [(key, convert_to_arrow(item)) for key, item in value.items()]
        case list():
            return [convert_to_arrow(item) for item in value]
        case _:
            return value


def parse_value(kind: Any, raw: Any) -> Any:
    """Parse Iceberg's JSON form of a single value."""
    if raw is None:
        return None
    match kind:
        case {"type": "struct"}:
            cells = {
                entry["name"]: parse_value(entry["type"], raw.get(str(entry["id"])))
                for entry in kind["fields"]
            }
            return Row(**cells)
        case {"type": "list"}:
            return [parse_value(kind["element"], item) for item in raw]
        case {"type": "map"}:
            values = [parse_value(kind["value"], item) for item in raw["values"]]
            return dict(zip(raw["keys"], values, strict=True))
    return _PARSED.get(_strip_parameters(kind), lambda plain: plain)(raw)


def _strip_parameters(kind: str) -> str:
    """Return the name of a primitive type without its parameters."""
    return kind.partition("(")[0].partition("[")[0]


def _fit_scale(value: Any, kind: str) -> Any:
    """Return a decimal with all the digits of its type's scale, as readers give it."""
    if not isinstance(value, Decimal):
        return value
    scale = int(kind.rstrip(")").split(",")[1])
    return value.quantize(Decimal(1).scaleb(-scale))
