"""One text for all JSON texts that mean the same document.

    {"b": 1, "a": "x"}     as  {"a":"x","b":1}: the order of keys means nothing
    {"a": 1}               not as {"a": 1.0} or {"a": "1"}: OpenSearch returns documents as they
                           were sent, so a number's text is part of it

An ingest pipeline reads a document and writes it anew, with what it adds:

    {"a": 1.50}            as {"a": 1.5, "vector": [0.1]} where it adds `vector`
    {"a": [{"b": "x"}]}    as {"a": [{"b": "x", "vector": [0.1]}]} where it adds `a.vector`

It must not know what is compared with what.
"""

import json
from collections.abc import Sequence, Set
from typing import Any


def dump_canonical(document: str | bytes, added: Set[str] | None = None) -> str:
    """Return the text of `parse_canonical`, with sorted keys."""
    return json.dumps(parse_canonical(document, added), sort_keys=True, separators=(",", ":"))


def parse_canonical(document: str | bytes, added: Set[str] | None = None) -> Any:
    """Return the document, in which numbers retain their text: 1, 1.0 and "1" differ.

    `added` are the paths of the fields that an ingest pipeline adds, which are left out, and
    numbers are then the doubles that it makes of them; None where documents come back as they were
    sent.
    """

    # As an object, which no string of a document can be mistaken for.
    def wrap_number(text: str) -> dict[str, str]:
        return {"number": text}

    def wrap_double(text: str) -> dict[str, str]:
        return {"number": repr(float(text))}

    parse_float = wrap_number if added is None else wrap_double
    parsed = json.loads(document, parse_float=parse_float, parse_int=wrap_number)
    for path in added or ():
        _leave_out(parsed, path.split("."))
    return parsed


def _leave_out(part: Any, path: Sequence[str]) -> None:
    for one in part if isinstance(part, list) else (part,):
        if not isinstance(one, dict):
            continue
        if len(path) == 1:
            one.pop(path[0], None)
        else:
            _leave_out(one.get(path[0]), path[1:])
