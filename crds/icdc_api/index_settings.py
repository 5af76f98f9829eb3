"""The settings of an index under which it would not equal its table, or could lose writes.

Refused in `indexSettings`, and looked for in every index that was made, because index templates
add theirs. A pure table; it knows no client.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

GC_DELETES = "1h"
"""How long versions of deleted documents are kept: the second line against resurrection."""


@dataclass(frozen=True)
class SettingRule:
    """`setting`, or all settings below it; `allowed` values in lower case; `why` not others."""

    setting: str
    allowed: tuple[str, ...]
    why: str


_PIPELINE = "an ingest pipeline would make documents differ from their rows"
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
    """The settings with flat names: `index.a.b`, however they were nested or shortened."""
    flat: dict[str, Any] = {}
    left: list[tuple[str, Any]] = [("", settings)]
    while left:
        prefix, value = left.pop()
        if isinstance(value, Mapping):
            below = [
                (f"{prefix}.{key}" if prefix else str(key), each) for key, each in value.items()
            ]
            left.extend(reversed(below))
        else:
            flat[prefix if prefix.startswith("index.") else f"index.{prefix}"] = value
    return flat


def find_harmful(settings: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Those of the flat `settings` that break the index's promise: name, value and why."""
    for name, value in settings.items():
        text = str(value).lower()
        for rule in RULES:
            applies = name == rule.setting or name.startswith(f"{rule.setting}.")
            if applies and value is not None and text not in rule.allowed:
                yield name, text, rule.why
