"""Recognise errors that a row causes; messages do not repeat the values of the row.

Spark and Python quote the value on which they fail, and messages reach statuses, Events and logs.
So only the code or class of such an error is repeated, and the line of Python that raised it:

    [CAST_INVALID_INPUT] The value 'secret' of the type "STRING" cannot be cast to "INT"
        "rowFilter fails on a row of the table ([CAST_INVALID_INPUT]): …"
    ValueError: invalid literal for int() with base 10: 'secret'
        "ValueError at digests.py:41 in a task; …"

Part of the border in `errors`: it knows texts, no exceptions.
"""

import re

from icdc_api import redaction
from icdc_api.errors import FileUnreadable, FilterInvalid, TableError

_DATA_STATE = re.compile(r"SQLSTATE: (?:22|23|P0)[0-9A-Z]{3}")
"""SQL states of data exceptions, of violated constraints, and of `raise_error`."""
_OF_A_TASK = re.compile(
    r"Job aborted due to stage failure|Lost task \d|Traceback \(most recent call last\)"
)
"""In the text of an error that a task raised; the driver's own errors have seen no rows."""
_CLASS = re.compile(r"\b(?:[\w$]+\.)*([A-Za-z_]\w*(?:Error|Exception))\b(?=:|$)")
_LINE_OF_PYTHON = re.compile(r'^\s*File "(?:[^"\n]*/)?([^"/\n]+)", line (\d+)', re.MULTILINE)
_CODE = re.compile(r"\[([A-Z][A-Z0-9]*(?:[_.][A-Z0-9]+)+)\]")


def find_meaning(text: str) -> tuple[type[TableError], str] | None:
    """Return the error for a row on which an expression fails, and a message without its values.

    None for other errors.
    """
    # Expressions of our own fail on no value, but for maps: all others are of the row filter.
    # Before the states: that of a duplicate key is 23505, which would blame the row filter.
    if "[DUPLICATED_MAP_KEY]" in text:
        return FileUnreadable, (
            "a map in a row contains the same key more than once ([DUPLICATED_MAP_KEY]), so it has "
            "no document: rewrite that row, or leave its column out by naming the other columns "
            "in `columns`"
        )
    if not _DATA_STATE.search(text):
        return None
    code = _CODE.search(text)
    return FilterInvalid, (
        f"rowFilter fails on a row of the table ([{code[1] if code else 'unknown'}]): write it so "
        "that it works for every value, for example with try_cast, try_divide or nullif"
    )


def withhold_values(detail: str, text: str) -> str:
    """Return `detail`, one line of an error whose causes are `text`, without values of rows.

    An error of the driver has seen no row; what it quotes, such as a setting, is hidden too.
    """
    if not _OF_A_TASK.search(text):
        return redaction.hide_quoted(detail)
    classes = _CLASS.findall(detail)
    lines = _LINE_OF_PYTHON.findall(text)
    line = f" at {lines[-1][0]}:{lines[-1][1]}" if lines else ""
    return (
        f"{classes[-1] if classes else 'an error'}{line} in a task; its message may quote a row "
        "and is not repeated here, see the logs of driver and executors"
    )
