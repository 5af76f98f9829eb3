"""Compare two versions of a table's documents: those written, and those of the present spec.

Both are `DocumentSpec.stored`, the form in which an index has them in the `_meta` of its mapping.
For an index whose documents were written with `id` and `name`:

| the table now | documents | what follows |
|---|---|---|
| `id int` became `id bigint` | the same | the index is written on |
| a column `age` was added | the same, with a new field | `age` goes into the mapping |
| `age` was added, and is filled in old rows | differ: by a default, for example | a new export |
| `name` was renamed or dropped | differ | a new export |

An expression may give another result for an int than for a long, so what it reads is compared by
exact types. A row filter of the same text may read another column of the same name, or hash another
type, so its columns are compared by their ids and types, too. Pure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from icdc_spark.documents.forms import EXACT_SCALED_FLOAT_DIGITS

Stored = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Compatibility:
    """The result of comparing two versions of a table's documents."""

    reason: str | None = None
    """Why documents would differ; None if they would not."""
    added: tuple[str, ...] = ()
    """Paths of the new fields, which the mapping of the index does not have yet."""
    is_meta_old: bool = False
    """True if `_meta` must be written before the next document, though none differs: what the spec
    leaves out is known from there alone."""


SAME = Compatibility()
"""The result where nothing differs, or nothing was written yet."""

# In this order: the first part that differs is the reason that the user reads.
_PARTS = {
    "contractVersion": "the contract version of documents",
    "appendOnly": "appendOnly",
    "rowFilter": "rowFilter",
    "identifiers": "the identifier columns",
    "routing": "the routing",
    "mapping": "the mapping overrides",
    "pipeline": "sink.opensearch.pipeline",
}

_MERGED = (None, "keyword", "text", "object", "nested")
"""Types in a mapping of the user's beside which something of the derived one may stay."""

WITH_DEFAULT = "was added with a default value, which earlier rows have too"
"""What a reason says of a column that was added so."""

_Forms = dict[int, list[tuple[str, str]]]
"""Path and form of the fields that are made of a column, by its id: mostly one."""


def compare_stored(before: Stored, now: Stored, filled: Mapping[int, str]) -> Compatibility:
    """Compare documents written under `before` with those of `now`.

    `filled`: the ids of columns in which earlier rows may show a value although documents of
    `before` do not have the column, and what the reason says of it.
    """
    for key, description in _PARTS.items():
        if before.get(key) != now.get(key):
            return Compatibility(reason=f"{description} changed")
    if before.get("strings") != now.get("strings") and _has_plain_string(before, now["mapping"]):
        return Compatibility(reason="the mapping of strings changed")
    read = _find_changed_expression(before, now) or _find_changed_filter(before, now)
    if read:
        return Compatibility(reason=read)
    return _compare_columns(before, now, filled)


def _find_changed_expression(before: Stored, now: Stored) -> str | None:
    """Return the reason why a field that is made by an expression differs; None if none does."""
    # In no order: earlier versions stored what is read in the order of the table's columns.
    earlier, later = (
        {
            name: (text, made, sorted(reads))
            for name, text, made, reads in stored.get("expressions", ())
        }
        for stored in (before, now)
    )
    for name in sorted(earlier.keys() | later.keys()):
        if name not in later:
            return f"field `{name}` is no longer made by an expression"
        if name not in earlier:
            return f"field `{name}` is made by an expression now"
        if earlier[name][0] != later[name][0]:
            return f"the expression of field `{name}` changed"
        if earlier[name] != later[name]:
            return f"a column that the expression of field `{name}` reads changed"
    return None


def _find_changed_filter(before: Stored, now: Stored) -> str | None:
    """Return the reason why a filter of the same text lets other rows pass; None if it does not."""
    read, later = before.get("filterReads", ()), now.get("filterReads", ())
    types = {(number, path): kind for number, path, kind in later}
    changed = [one for one in read if not _reads_alike(one[2], types.get((one[0], one[1])))]
    # New columns change nothing, as the filter was understood without them: but for one of the same
    # name. Without case, as Spark finds columns by default. Earlier versions did not store what the
    # filter read: of their indices the columns that documents have are known.
    ids: dict[str, set[int]] = {}
    for number, path, _ in read or before["columns"]:
        ids.setdefault(path.lower(), set()).add(number)
    changed += [one for one in later if one[0] not in ids.get(one[1].lower(), {one[0]})]
    return f"column `{changed[0][1]}`, which rowFilter names, changed" if changed else None


def _reads_alike(earlier: str, later: str | None) -> bool:
    """Return whether a filter hashes a column's values as before; None for one that is gone.

    A narrower type than before, as after a rollback, is still read as the wider one. Earlier
    versions stored the form of a type: `long` of an int too, `long decimal:2` of decimal(20,2).
    """
    # An int is read as the long that it was before.
    if earlier == later or (earlier, later) == ("long", "int"):
        return True
    if later is None or not later.startswith("decimal") or "decimal" not in earlier:
        return False
    return earlier.startswith("long decimal:") or _find_digits(later) <= _find_digits(earlier)


def _find_digits(kind: str) -> int:
    """Return the digits of a decimal as it is stored: 20 of `decimal(20,2)`, 15 of `decimal:2`."""
    digits = kind.removeprefix("decimal(").partition(",")[0]
    return int(digits) if digits.isdecimal() else EXACT_SCALED_FLOAT_DIGITS


def _compare_columns(before: Stored, now: Stored, filled: Mapping[int, str]) -> Compatibility:
    # By field id: a renamed column is not one dropped and another added.
    earlier, later = _group_by_id(before), _group_by_id(now)
    for number, forms in earlier.items():
        reason = _find_difference(forms, later.get(number, []))
        if reason:
            return Compatibility(reason=reason)
    added = [
        (number, path) for number in later if number not in earlier for path, _ in later[number]
    ]
    for number, path in added:
        if number in filled:
            return Compatibility(reason=f"column `{path}` {filled[number]}")
        # A field inside a column that was there is new in the table, whoever names the column.
        is_inside = any(above in _list_paths(before) for above in list(_list_ancestors(path))[:-1])
        if not is_inside and not _is_new_in_table(number, before):
            return Compatibility(reason=f"`{path}` was added to the documents by the spec")
    return Compatibility(added=tuple(path for _, path in added), is_meta_old=before != now)


def _find_difference(earlier: list[tuple[str, str]], later: list[tuple[str, str]]) -> str | None:
    """Return why the fields that are made of one column differ; None if they do not."""
    left = [entry for entry in earlier if entry not in later]
    new = [entry for entry in later if entry not in earlier]
    if not new:
        return f"column `{left[0][0]}` no longer exists" if left else None
    if not left:
        return f"`{new[0][0]}` was added to the documents by the spec"
    (path, kind), (new_path, new_kind) = left[0], new[0]
    if path != new_path:
        return f"column `{path}` is now called `{new_path}`"
    return f"column `{path}` changed from {kind} to {new_kind}"


def _is_new_in_table(number: int, before: Stored) -> bool:
    """Return whether documents of before would have had the column, had it been there."""
    # Both are stored only where they say something, see `DocumentSpec.stored`.
    return before.get("allColumns", True) and number not in before.get("excluded", ())


def _group_by_id(stored: Stored) -> _Forms:
    forms: _Forms = {}
    for number, path, form in stored["columns"]:
        forms.setdefault(number, []).append((path, form))
    return forms


def _list_paths(stored: Stored) -> frozenset[str]:
    return frozenset(path for _, path, _ in stored["columns"])


def _has_plain_string(stored: Stored, mapping: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether a string of the index is mapped as the spec says of all strings.

    One whose own mapping has another type than strings can have is not, nor is one in a map.
    """
    own = {name for name, wish in mapping.items() if wish.get("type") not in _MERGED}
    forms = {path: form for _, path, form in stored["columns"]}
    for _, _, made, _ in stored.get("expressions", ()):
        forms |= dict(made)
    own |= {path for path, form in forms.items() if form == "map"}
    return any(
        form == "string" and own.isdisjoint(_list_ancestors(path)) for path, form in forms.items()
    )


def _list_ancestors(path: str) -> Iterator[str]:
    """Yield `a`, `a.b` and `a.b.c` for `a.b.c`."""
    names = path.split(".")
    for end in range(1, len(names) + 1):
        yield ".".join(names[:end])
