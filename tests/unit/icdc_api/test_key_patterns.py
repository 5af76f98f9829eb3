"""One expression for many keys: it finds these, and no other."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icdc_api.key_patterns import build_pattern

pytestmark = pytest.mark.unit

PARTS = st.lists(st.sampled_from(["a", "b", "ab", "c-d", "e/f"]), min_size=1, max_size=4)
KEYS = PARTS.map(".".join)


def test_common_parts_are_written_once() -> None:
    assert build_pattern(["a.b", "a.c"], ["a.d."]) == "^a[.]((b|c)$|d[.])"


@given(
    keys=st.lists(KEYS, max_size=6),
    beginnings=st.lists(KEYS.map("{}.".format) | KEYS, min_size=1, max_size=6),
    asked=st.lists(KEYS, min_size=1, max_size=20),
)
def test_the_keys_and_what_begins_so_are_found(
    keys: list[str], beginnings: list[str], asked: list[str]
) -> None:
    result = re.compile(build_pattern(keys, beginnings))
    for key in (*asked, *keys, *beginnings, *(f"{beginning}x.y" for beginning in beginnings)):
        wanted = key in keys or key.startswith(tuple(beginnings))
        assert bool(result.search(key)) == wanted, key
