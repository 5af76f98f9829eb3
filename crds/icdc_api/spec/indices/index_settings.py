"""Index settings under which an index would differ from its table, or could lose writes.

Refused in `indexSettings`, and checked in every created index, because index templates add theirs.
A pure table; it knows no client.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

VECTORS_DERIVED = "index.knn.derived_source.enabled"
"""Whether vectors are made of the index, see `keep_vectors`."""
GC_DELETES = "1h"
"""Retention of the versions of deleted documents: the second guard against stale writes."""


@dataclass(frozen=True)
class SettingRule:
    """The allowed values of one setting, or of all settings below it."""

    setting: str
    """Full name of the setting; settings below it, after a dot, follow the same rule."""
    allowed: tuple[str, ...]
    """Allowed values, in lower case."""
    why: str
    """Reason why other values are refused, for a message."""


# `_none` is OpenSearch's word for no pipeline.
_PIPELINE = "documents would differ from their rows; name a pipeline that adds fields in spec.sink"
RULES = (
    SettingRule("index.default_pipeline", ("_none",), _PIPELINE),
    SettingRule("index.final_pipeline", ("_none",), _PIPELINE),
    SettingRule(
        "index.derived_source",
        ("false",),
        "a derived _source is not the document that was written",
    ),
    SettingRule("index.blocks", ("false",), "the index must be writable"),
    SettingRule("index.append_only", ("false",), "documents are updated and deleted"),
    SettingRule(
        "index.translog.durability",
        ("request",),
        "writes that were acknowledged would be lost with a node",
    ),
    SettingRule(
        "index.gc_deletes",
        (GC_DELETES,),
        "a late write could bring back a deleted document",
    ),
    SettingRule(
        "index.soft_deletes.enabled", ("true",), "replicas could not catch up with deletes"
    ),
)


def flatten_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return `settings` with flat, full names: {a: {b: 1}} becomes {index.a.b: 1}."""
    flat: dict[str, Any] = {}
    left: list[tuple[str, Any]] = [("", settings)]
    while left:
        prefix, value = left.pop()
        if isinstance(value, Mapping):
            below = [
                (f"{prefix}.{key}" if prefix else str(key), item) for key, item in value.items()
            ]
            # Reversed, because the last one is taken first: the order of the document stays.
            left.extend(reversed(below))
        else:
            flat[prefix if prefix.startswith("index.") else f"index.{prefix}"] = value
    return flat


def keep_vectors(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flat `settings` with one more, if the plugin k-NN is used and they do not have it.

    By default OpenSearch 3 stores no vectors in `_source`: it makes them of the index, where they
    are rounded, and with some engines normalised. They would differ from their rows.
    """
    # Not unless it is used, where OpenSearch refuses the other setting.
    return {**({VECTORS_DERIVED: False} if uses_vectors(settings) else {}), **settings}


def uses_vectors(settings: Mapping[str, Any]) -> bool:
    """Return whether the plugin k-NN is used, by the flat `settings`."""
    return str(settings.get("index.knn")).lower() == "true"


def find_harmful(settings: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and reason of each harmful one of the flat `settings`."""
    for name, value in settings.items():
        # As text: OpenSearch answers "false" where a person writes false.
        text = str(value).lower()
        for rule in RULES:
            applies = name == rule.setting or name.startswith(f"{rule.setting}.")
            if applies and value is not None and text not in rule.allowed:
                yield name, text, rule.why
