"""One regular expression for many dotted keys, as short as their common parts allow.

    a.b, a.c, a.d.*   ->   ^a[.]((b|c)$|d[.])

For the CRD, whose size is bounded. RE2 and Python's `re` read it alike. Parts have only letters,
digits, dashes and slashes, which need no escape.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

# Without a backslash, which CEL and YAML would each escape once more.
_DOT = "[.]"


@dataclass
class _Node:
    """The parts that may follow a part of a key."""

    ends: bool = False
    """Whether the key may end here."""
    below: dict[str, "_Node"] = field(default_factory=dict)
    """The parts that may follow; one that ends with a star may be followed by anything."""


def build_pattern(keys: Iterable[str], beginnings: Iterable[str]) -> str:
    """Return an expression that matches `keys`, and keys that start with one of `beginnings`."""
    # A tree of parts, as people write keys: `spark.sql.` is written once for all that begin so.
    root = _Node()
    for name in [*keys, *(f"{beginning}*" for beginning in beginnings)]:
        node = root
        for part in name.split("."):
            node = node.below.setdefault(part, _Node())
        node.ends = True
    return f"^{_join_alternatives(_list_alternatives(root))}"


def _list_alternatives(node: _Node) -> list[str]:
    """Return the alternatives for the parts that may follow; equal ends are written once."""
    # Sorted, so that the CRD is the same text for the same tables.
    starts: dict[str, list[str]] = {}
    for part, below in sorted(node.below.items()):
        starts.setdefault(_build_end(part, below), []).append(part.removesuffix("*"))
    return [f"{_join_alternatives(names)}{end}" for end, names in starts.items()]


def _build_end(part: str, node: _Node) -> str:
    # Whatever follows such a part is matched, so the expression ends there, without a `$`.
    if part.endswith("*"):
        return ""
    ends = ["$"] if node.ends else []
    if "*" in node.below:  # whatever else there is below is found with it
        return _join_alternatives([*ends, _DOT])
    return _join_alternatives(
        [*ends, *([f"{_DOT}{_join_alternatives(_list_alternatives(node))}"] if node.below else [])]
    )


def _join_alternatives(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"({'|'.join(texts)})"
