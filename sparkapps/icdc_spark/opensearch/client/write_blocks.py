"""Names what keeps OpenSearch from taking writes: blocks, and the limit of shards.

The server's reasons for these hold names and numbers, and nothing of a row; only such parts are
taken from them.

    index [orders-000001] blocked by: [FORBIDDEN/8/index write (api)];
    blocked by: [FORBIDDEN/6/cluster read-only (api)];
    this action would add [2] total shards, but this cluster currently has [999]/[1000] maximum …
"""

import re

_BLOCKED = re.compile(
    r"(?:index \[(?P<index>[^\]\s]+)] )?blocked by: \[[A-Z_]+/\d+/(?P<block>[\w ,/()-]{1,100})]"
)
_SHARDS = re.compile(
    r"this action would add \[\d+] [\w ]{1,40}, "
    r"but this cluster currently has \[\d+]/\[\d+] [\w ]{1,40}"
)


def describe_block(kind: str, reason: str) -> str:
    """Return what is blocked, and by what, as a part of a sentence; `kind` is the error's type."""
    named = _BLOCKED.search(reason)
    if not named:
        return f" ({kind})"
    where = f" to index {named['index']!r}" if named["index"] else ""
    return f"{where} ({kind}: {named['block']})"


def find_shard_limit(reason: str) -> str:
    """Return how the limit of shards is reached; empty where that is not the reason."""
    named = _SHARDS.search(reason)
    return named[0] if named else ""
