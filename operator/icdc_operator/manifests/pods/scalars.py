"""Single values of Kubernetes types, as their Go decoders accept them from JSON.

Where Go would round or cut a value, as it does with quantities, the value is refused: nobody means
that. Where this and Go could differ, this is the stricter one.

    type          accepted             refused
    int32         2147483647           2147483648, "1", 1.0
    quantity      500m, 2, 1.5Gi       1.5GiB, 1e99, lots
    time          2024-03-15T14:30:00Z 2024-03-15
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)

# Sign, number, and one of: a binary suffix, a decimal suffix, an exponent.
_QUANTITY = re.compile(
    r"[+-]?(?P<number>[0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?"
)
# Ki is 1024, Mi its square, and so on. The decimal letters begin at n (1000 ** -3); the underscore
# holds the place of 1000 ** 0, which has no suffix.
_BINARY = {f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)}
_DECIMAL = {unit: Decimal(1000) ** power for power, unit in enumerate("num_kMGTPE", -3)}
_POWERS: Mapping[str, Decimal] = {**_BINARY, **_DECIMAL, "": Decimal(1)}
# Kubernetes silently caps a larger quantity to this one.
_LARGEST = Decimal(2**63 - 1)
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})"
)


@dataclass(frozen=True)
class Scalar:
    """One kind of single value."""

    is_kind: Callable[[object], bool]
    """Predicate: the value has the JSON form of this type."""
    kind: str
    """That form, for messages."""
    fits: Callable[[object], bool] = lambda _: True
    """Predicate: a value of that form is in the range of this type."""
    rule: str = ""
    """That range, for messages."""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number_or_text(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def is_quantity(value: object) -> bool:
    """Return whether resource.Quantity of Kubernetes reads `value` without changing it."""
    if isinstance(value, float) and not math.isfinite(value):
        return False
    match = _QUANTITY.fullmatch(value if isinstance(value, str) else json.dumps(value))
    if match is None:
        return False
    suffix = match["suffix"] or ""
    # E alone is a suffix (exa); e and E with digits after them are exponents.
    power = _POWERS[suffix] if suffix in _POWERS else Decimal(10) ** int(suffix[1:])
    return Decimal(match["number"]) * power <= _LARGEST


def is_time(value: object) -> bool:
    """Return whether `value` is a time of RFC 3339."""
    if not isinstance(value, str) or _TIME.fullmatch(value) is None:
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


SCALARS: Mapping[str, Scalar] = {
    "any": Scalar(lambda _: True, "anything"),
    "string": Scalar(_is_text, "text"),
    "boolean": Scalar(lambda value: isinstance(value, bool), "true or false"),
    "int32": Scalar(
        _is_whole, "a whole number", lambda value: value in _INT32, "a number of 32 bits"
    ),
    "int64": Scalar(
        _is_whole, "a whole number", lambda value: value in _INT64, "a number of 64 bits"
    ),
    "int-or-string": Scalar(
        lambda value: _is_text(value) or _is_whole(value),
        "a whole number or text",
        lambda value: _is_text(value) or value in _INT32,
        "text or a number of 32 bits",
    ),
    "quantity": Scalar(
        _is_number_or_text, "a quantity", is_quantity, "a quantity, such as 500m, 2 or 1.5Gi"
    ),
    "time": Scalar(_is_text, "text", is_time, "a time, such as 2024-03-15T14:30:00Z"),
}
"""The types by their names in pod_template.json."""
