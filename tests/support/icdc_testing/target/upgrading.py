"""Makes a state document what an older version of the application would have left."""

import hashlib
import json
from typing import Any

from icdc_api.naming import STATE_INDEX
from icdc_testing.target import oracle

_UNKNOWN_BEFORE = ("shards", "revision", "storeHistory", "absentNodes")
"""Fields that contract version 1 did not have."""


def forget_shards(url: str, alias: str) -> None:
    """Replace the document of `alias` by one of contract version 1, which knew no shards."""
    content = _read(url, alias)
    for field in _UNKNOWN_BEFORE:
        del content[field]
    _write(url, alias, content | {"contractVersion": 1})


def forget_cut(url: str, alias: str, *, rows: int) -> None:
    """Replace the document of `alias` by one of contract version 3, which knew one way to cut.

    `rows` are those that its export has written until now.
    """
    content = _read(url, alias)
    del content["intent"]["cut"]
    content["intent"]["rows"] = rows
    # Counts how often it was stored: else it would be taken for a copy that was put back.
    content["revision"] += 1
    _write(url, alias, content | {"contractVersion": 3})


def _read(url: str, alias: str) -> dict[str, Any]:
    content: dict[str, Any] = oracle.request(f"{url}/{STATE_INDEX}/_doc/{alias}")["_source"]
    return content


def _write(url: str, alias: str, content: dict[str, Any]) -> None:
    """Store the document, with the checksum that the older version would have given it."""
    content = {name: value for name, value in content.items() if name != "checksum"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    checksum = hashlib.sha256(text.encode()).hexdigest()
    path = f"{url}/{STATE_INDEX}/_doc/{alias}"
    oracle.request(path, "PUT", content | {"checksum": checksum})
