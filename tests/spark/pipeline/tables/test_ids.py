"""Ids at their borders, on every path by which a row can reach its index."""

import hashlib
from collections.abc import Callable

import pytest

from icdc_testing.lake.schemas import build_schema_json
from icdc_testing.tables.paths import assert_same_bytes, build_paths
from icdc_testing.tables.playing import Stages, assert_played
from icdc_testing.tables.scenarios import COW2, MOR2, Op, put, select_rows

pytestmark = pytest.mark.spark

EMOJI = "\N{GRINNING FACE}\N{MUSICAL SYMBOL G CLEF}"

# Types that Spark's SQL cannot name, and a key of every type that may be in one.
KEY_FIELDS = {
    "flag": "boolean",
    "i": "int",
    "l": "long",
    "price": "decimal(9, 2)",
    "day": "date",
    "moment": "timestamptz",
    "local": "timestamp",
    "s": "string",
    "u": "uuid",
    "x": "fixed[3]",
    "bin": "binary",
}
UUID = "f79c3e09-677c-4bbd-a479-3f349cb785e7"


def build_key_insert(marker: str) -> str:
    full = (
        "true, 1, 2, 3.50, date'2024-03-15', timestamp'2024-03-15 14:30:00', "
        f"timestamp_ntz'2024-03-15 14:30:00', 'a|b', '{UUID}', X'00ff10', X'00ff1011'"
    )
    nothing = ", ".join(["null"] * len(KEY_FIELDS))
    return f"insert into {{t}} values ('{marker}', {full}), ('{marker}', {nothing})"


def expect_keys(marker: str) -> list[Op]:
    moment = "2024-03-15T14:30:00.000000"
    return [
        put(
            f"true|1|2|3.50|2024-03-15|{moment}Z|{moment}|a\\|b|{UUID}|AP8Q|AP8QEQ==",
            marker=marker, flag=True, i=1, l=2, price="3.50", day="2024-03-15",
            moment=f"{moment}Z", local=moment, s="a|b", u=UUID, x="AP8Q", bin="AP8QEQ==",
        ),
        put("|".join(["\\N"] * len(KEY_FIELDS)), marker=marker),
    ]  # fmt: skip


# Ids at their borders: (value of the key, id); OpenSearch takes 512 bytes.
LONG = EMOJI[0] * 128
TEXT_KEYS: list[tuple[str | None, str]] = [
    ("plain", "plain"),
    ("", "\\E"),
    (None, "\\N"),
    ("null", "null"),
    ("\\N", "\\\\N"),
    ("x|y", "x\\|y"),
    ("x\\|y", "x\\\\\\|y"),
    (LONG, LONG),
    (LONG + "a", "\\H" + hashlib.sha256((LONG + "a").encode()).hexdigest()),
    (EMOJI, EMOJI),
    ("#/?&+ %41_", "#/?&+ %41_"),
]
PAIR_KEYS = [
    (("x|y", "z"), "x\\|y|z"),
    (("x", "y|z"), "x|y\\|z"),
    ((None, "null"), "\\N|null"),
    (("null", None), "null|\\N"),
    (("", ""), "|"),
    (("", None), "|\\N"),
    (("\\", "|"), "\\\\|\\|"),
    (("a" * 300, "b" * 300), "\\H" + hashlib.sha256(b"a" * 300 + b"|" + b"b" * 300).hexdigest()),
]


def format_literal(value: str | None) -> str:
    return "null" if value is None else "'" + value.replace("\\", "\\\\") + "'"


def build_text_insert(marker: str) -> str:
    values = ", ".join(f"('{marker}', {format_literal(key)})" for key, _ in TEXT_KEYS)
    return "insert into {t} " + select_rows(values)


def expect_texts(marker: str) -> list[Op]:
    return [
        put(key, marker=marker, **({} if value is None else {"k": value}))
        for value, key in TEXT_KEYS
    ]


def build_pair_insert(marker: str) -> str:
    values = ", ".join(
        f"('{marker}', named_struct('a', {format_literal(a)}, 'b', {format_literal(b)}))"
        for (a, b), _ in PAIR_KEYS
    )
    return "insert into {t} " + select_rows(values)


def expect_pairs(marker: str) -> list[Op]:
    return [
        put(key, marker=marker, k={n: v for n, v in zip("ab", pair, strict=True) if v is not None})
        for pair, key in PAIR_KEYS
    ]


MADE_BY_ICEBERG = {
    "columns": build_schema_json({"marker": "string", **KEY_FIELDS}),
    "key": list(KEY_FIELDS),
}
GROUPS = {
    "keys-cow2": build_paths("keys", COW2, build_key_insert, expect_keys, **MADE_BY_ICEBERG),
    "texts-cow2": build_paths(
        "texts", COW2, build_text_insert, expect_texts, columns="marker string, k string", key=["k"]
    ),
    "pairs-mor2": build_paths(
        "pairs",
        MOR2,
        build_pair_insert,
        expect_pairs,
        columns="marker string, k struct<a:string,b:string>",
        key=["k.a", "k.b"],
    ),
}
SCENARIOS = [scenario for scenarios in GROUPS.values() for scenario in scenarios]


@pytest.fixture(scope="module")
def stages(play: Callable[..., Stages]) -> Stages:
    return play(SCENARIOS)


@pytest.mark.parametrize("alias", [scenario.alias for scenario in SCENARIOS])
def test_a_key_becomes_its_id(stages: Stages, alias: str) -> None:
    assert_played(stages[alias])


@pytest.mark.parametrize("group", GROUPS)
def test_every_path_gives_the_same_bytes_under_the_same_ids(stages: Stages, group: str) -> None:
    assert_same_bytes(stages, GROUPS[group])
