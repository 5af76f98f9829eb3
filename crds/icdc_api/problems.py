"""How a validator says what is wrong: the field below the model, the value, what is allowed.

The models raise it while pydantic validates; loading turns it into a line of a BadSpec.
"""

from pydantic_core import PydanticCustomError

PROBLEM = "icdc_problem"
MAX_SHOWN = 80


def format_value(value: object) -> str:
    """`value` for a message: bounded, on one line."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


def problem(text: str, *field: str | int) -> PydanticCustomError:
    """An error about `field`, a path below the model that raises it; `text` is the whole rule."""
    return PydanticCustomError(PROBLEM, "{text}", {"text": text, "field": field})


def not_allowed(value: object, rule: str, *field: str | int) -> PydanticCustomError:
    """The usual form of a problem: the value, then what is allowed."""
    return problem(f"{format_value(value)} is not allowed: {rule}", *field)


def first_duplicate(values: tuple[str, ...]) -> tuple[int, str] | None:
    """Position and value of the first one that occurred before."""
    seen: set[str] = set()
    for position, value in enumerate(values):
        if value in seen:
            return position, value
        seen.add(value)
    return None
