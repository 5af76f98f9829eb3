"""Makes a state document what an older version of the application would have left."""

import hashlib
import json

from icdc_api.naming import STATE_INDEX
from icdc_testing.target import oracle

_UNKNOWN_BEFORE = ("checksum", "shards", "revision", "storeHistory", "absentNodes")
"""Fields that contract version 1 did not have, and the checksum, which depends on them."""


def forget_shards(url: str, alias: str) -> None:
    """Replace the document of `alias` by one of contract version 1, which knew no shards."""
    here = f"{url}/{STATE_INDEX}/_doc/{alias}"
    content = oracle.request(here)["_source"]
    for field in _UNKNOWN_BEFORE:
        del content[field]
    content["contractVersion"] = 1
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    checksum = hashlib.sha256(text.encode()).hexdigest()
    oracle.request(here, "PUT", content | {"checksum": checksum})
