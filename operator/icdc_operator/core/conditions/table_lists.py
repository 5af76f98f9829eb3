"""How many tables are spoken of in one message, be it of a condition or of an event. Pure."""

from collections.abc import Callable, Sequence

from icdc_api.status import TableStatus

MAX_LISTED = 5
"""Tables that a message names one by one; the others are counted."""


def list_tables(tables: Sequence[TableStatus], text: Callable[[TableStatus], str]) -> str:
    """What `text` says of each of the first tables, and how many more there are."""
    told = "; ".join(text(table) for table in tables[:MAX_LISTED])
    rest = len(tables) - MAX_LISTED
    return f"{told}; and {rest} more" if rest > 0 else told
