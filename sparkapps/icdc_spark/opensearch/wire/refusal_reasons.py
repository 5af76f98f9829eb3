"""Cuts what OpenSearch says of a refused row down to what names fields and quotes no value.

Status and answers go to people who may not read the rows. It must not know where reasons are kept.
"""

import re

_NO_VALUES = re.compile(
    r"^(failed to parse field \[[^\]]*\] of type \[[^\]]*\]"
    r"|mapping set to strict, dynamic introduction of \[[^\]]*\] within \[[^\]]*\]"
    r"|Document contains at least one immense term in field=\"[^\"]*\""
    r"|object mapping for \[[^\]]*\] tried to parse field \[[^\]]*\]"
    r"|Limit of (?:total fields|mapping depth) \[[^\]]*\]"
    # Our own, of a row that was never sent: the whole of it.
    r"|the expression of the field `.*` fails on this row$)"
)
"""Beginnings of reasons that name fields, before they quote what is in them."""


def without_values(reason: str) -> str:
    """Return the part of a reason that names no value of a row; empty where there is none."""
    beginning = _NO_VALUES.match(reason)
    return beginning[0] if beginning else ""
