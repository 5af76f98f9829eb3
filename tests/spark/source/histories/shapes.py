"""Fields and filters of random histories, each with the same made in Python."""

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

from icdc_testing.tables.fields import derive, take
from icdc_testing.target.oracle import convert_fields as drop_nulls

Values = Mapping[str, Any]
Shape = list[tuple[Any, Callable[[Values], Any]]]
"""Entries of `fields`, each with the same field worked out in Python."""


def _invert(row: Values) -> float | None:
    return None if row["p"] is None else 1 / row["p"]


FIELDS: Shape = [
    (take("who.name", "a"), lambda row: row["a"]),
    (take("who.part", "p"), lambda row: row["p"]),
    (take("b", "b"), lambda row: row["b"]),
    (derive("twice", "p * 2"), lambda row: None if row["p"] is None else row["p"] * 2),
    (derive("size", "length(a)"), lambda row: None if row["a"] is None else len(row["a"])),
    (
        derive("text", "concat_ws('|', a, id)"),
        lambda row: "|".join(str(row[name]) for name in ("a", "id") if row[name] is not None),
    ),
    (
        derive("pair", "named_struct('p', p, 'b', b)"),
        lambda row: drop_nulls({"p": row["p"], "b": row["b"]}),
    ),
    (derive("list", "array(p, id)"), lambda row: [row["p"], row["id"]]),
    (derive("map", "map('key', a)"), lambda row: {"key": row["a"]}),
    (derive("flag", "p = 1 and a is not null"), lambda row: _evaluate_both(row["p"], row["a"])),
    (
        derive("day", "date_add(date '2026-01-30', p)"),
        lambda row: None if row["p"] is None else dt.date(2026, 1, 30 + row["p"]),
    ),
    (derive("cast", "cast(id as string)"), lambda row: str(row["id"])),
    (
        derive("tail", "substring(concat(a, 'z'), 2)"),
        lambda row: None if row["a"] is None else (row["a"] + "z")[1:],
    ),
    (
        derive("parts", "transform(array(p, id), x -> named_struct('x', x + 1))"),
        lambda row: [drop_nulls({"x": _add_one(row[name])}) for name in ("p", "id")],
    ),
    (derive("keys", "map_keys(map('x', p, 'y', id))"), lambda _: ["x", "y"]),
    (derive("other", "nullif(p, 1)"), lambda row: None if row["p"] == 1 else row["p"]),
    (derive("early", "id between 2 and 5"), lambda row: 2 <= row["id"] <= 5),
    (
        derive("zero", "p between 0 and 0"),
        lambda row: None if row["p"] is None else row["p"] == 0,
    ),
    # It fails where p is 0.
    (derive("inverse", "1 / p"), _invert),
]


Filter = tuple[str, Callable[[Values], bool]]
EVERY_ROW: Filter = ("", lambda _: True)
FILTERS: list[Filter] = [
    EVERY_ROW,
    ("p = 1 or a is null", lambda row: row["p"] == 1 or row["a"] is None),
    ("id % 3 <> 0 and coalesce(a, '') < 'y'", lambda row: row["id"] % 3 != 0 and row["a"] != "y"),
]
"""Row filters, each with the same decision in Python."""


def _add_one(number: int | None) -> int | None:
    return None if number is None else number + 1


def _evaluate_both(p: int | None, a: str | None) -> bool | None:
    if a is None:
        return False
    return None if p is None else p == 1
