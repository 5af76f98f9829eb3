"""What Spark says of a row on which an expression fails: only its code, for it quotes the row.

Part of the border in `errors`; it knows texts, no exceptions.
"""

import re

from icdc_api.errors import FileUnreadable, FilterInvalid, TableError

_OF_DATA = re.compile(r"SQLSTATE: (?:22|23|P0)[0-9A-Z]{3}")
"""Of SQL: data exceptions, violated constraints, and what `raise_error` raises."""
_CODE = re.compile(r"\[([A-Z][A-Z0-9]*(?:[_.][A-Z0-9]+)+)\]")


def meaning(text: str) -> tuple[type[TableError], str] | None:
    """The error that stands for a row that cannot be worked out, and words without its values.

    Expressions of our own fail on no value, but for the keys of a map: the others are the user's.
    """
    if "[DUPLICATED_MAP_KEY]" in text:
        return FileUnreadable, (
            "a map in a row holds the same key more than once ([DUPLICATED_MAP_KEY]), so it has "
            "no document: rewrite that row, or leave its column out by naming the other columns "
            "in `columns`"
        )
    if not _OF_DATA.search(text):
        return None
    code = _CODE.search(text)
    return FilterInvalid, (
        f"rowFilter fails on a row of the table ([{code[1] if code else 'unknown'}]): write it so "
        "that it holds for every value, such as with try_cast, try_divide or nullif"
    )
