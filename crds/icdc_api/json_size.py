"""The size of a value as JSON: as Kubernetes stores it, and as it is sent there."""

import json
from typing import Any

_ESCAPED = (b"<", b">", b"&")
"""Each is one byte here, and six in what the API server writes: \\u003c."""


def measure_stored(value: Any) -> int:
    """Return the bytes of `value`, plain JSON types, in an object of the API server."""
    # Half of a surrogate pair, which JSON may hold, has no bytes in UTF-8.
    return _measure(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def measure_sent(value: Any) -> int:
    """Return the bytes of `value` in a request, or where it is stored if those are more.

    Python's JSON has only ASCII: twelve bytes for a character that is stored in four.
    """
    return _measure(json.dumps(value, separators=(",", ":")))


def _measure(text: str) -> int:
    data = text.encode(errors="replace")
    return len(data) + 5 * sum(data.count(character) for character in _ESCAPED)
