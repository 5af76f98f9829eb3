"""Entries of `fields` as tests write them."""

from typing import Any

from icdc_api.spec.indices.fields import FieldEntry


def parse_fields(*entries: Any) -> tuple[FieldEntry, ...]:
    """Return the entries of a spec; as in YAML, `"*"` is a text and all others are mappings."""
    return tuple(FieldEntry.model_validate(entry, by_name=False) for entry in entries)


def derive(name: str, expression: str, **more: Any) -> dict[str, Any]:
    """Return the entry of a field that an expression makes."""
    return {"name": name, "expression": expression, **more}


def take(name: str, column: str, **more: Any) -> dict[str, Any]:
    """Return the entry of a field that a column makes."""
    return {"name": name, "from": column, **more}
