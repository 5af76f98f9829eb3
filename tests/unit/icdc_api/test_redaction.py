"""Text of others that is quoted in messages, without values of rows."""

import pytest

from icdc_api import redaction

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "s3://l/o/data/region=EU/day=2024-03-15/f.parquet",
            "s3://l/o/data/region=…/day=…/f.parquet",
        ),
        ("Failed to read file: /w/city=New York/0.orc", "Failed to read file: /w/city=…/0.orc"),
        ("file:/w/x%20y=a%2Fb/f-a=b.parquet", "file:/w/x%20y=…/f-a=b.parquet"),
        ("/w/a=/f", "/w/a=…/f"),
        ("https://h/p?x=1 and a=b", "https://h/p?x=1 and a=b"),
        ("rowFilter `a = 1 / b`", "rowFilter `a = 1 / b`"),
    ],
)
def test_paths_show_no_value_of_a_partition_column(text: str, expected: str) -> None:
    assert redaction.hide_partition_values(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "ValueError: invalid literal for int(): 'ann'",
            "ValueError: invalid literal for int(): '…'",
        ),
        ('KeyError: "it\'s"', 'KeyError: "…"'),
        ("TypeError: can't convert 'ann'", "TypeError: can't convert '…'"),
        ("ValueError: 'ann' isn't 'O'Neil'", "ValueError: '…' isn't '…'"),
        ("ValueError: bad 'ann, cut off", "ValueError: bad '…'"),
        ("TypeError: no such thing", "TypeError: no such thing"),
    ],
)
def test_values_in_quotes_are_left_out(text: str, expected: str) -> None:
    assert redaction.hide_quoted(text) == expected
