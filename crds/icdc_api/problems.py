"""Errors of validators: the field below the model, the value, what is allowed.

Models raise them while pydantic validates; `loading` turns each into a line of a BadSpec.
"""

from pydantic_core import PydanticCustomError

PROBLEM = "icdc_problem"
"""Type of the errors made here, by which `explain` knows that the text is complete."""

MAX_SHOWN = 80
"""Most characters of a value in a message: a whole filter or template would hide the rule."""


def format_value(value: object) -> str:
    """Return `value` for a message: bounded, on one line."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


def build_problem(text: str, *field: str | int) -> PydanticCustomError:
    """Return an error about `field`, a path below the model that raises it, with message `text`."""
    # The text is a value and not the template, in which its braces would be placeholders.
    return PydanticCustomError(PROBLEM, "{text}", {"text": text, "field": field})


def build_refusal(value: object, rule: str, *field: str | int) -> PydanticCustomError:
    """Return an error with the value and the `rule` that it breaks."""
    return build_problem(f"{format_value(value)} is not allowed: {rule}", *field)


def find_first_duplicate(values: tuple[str, ...]) -> tuple[int, str] | None:
    """Return position and value of the first value that occurred before; None if all differ."""
    seen: set[str] = set()
    for position, value in enumerate(values):
        if value in seen:
            return position, value
        seen.add(value)
    return None
