"""Clauses that messages of conditions and Events share: lists of tables, and who must act.

Pure text. A message is a few clauses joined by semicolons, so that a table's own text, which may
hold sentences, can stand in it. It says in this order: what happened, to what, what happens next,
who acts.
"""

from collections.abc import Callable, Sequence

from icdc_api.errors import WhoActs
from icdc_api.status.pipeline_status import TableStatus

# kubectl shows a message on one line of a terminal; five tables are about what can be read there.
MAX_LISTED = 5
"""Tables that a message names one by one; the others are counted."""


def list_tables(tables: Sequence[TableStatus], describe: Callable[[TableStatus], str]) -> str:
    """Return `describe(table)` of the first MAX_LISTED tables, and how many more there are."""
    text = "; ".join(describe(table) for table in tables[:MAX_LISTED])
    rest = len(tables) - MAX_LISTED
    return f"{text}; and {rest} more" if rest > 0 else text


def require_action(who: WhoActs | str) -> str:
    """Return the clause that names who must act before the problem can be solved."""
    return f"action required: {who.value if isinstance(who, WhoActs) else who}"


def join_clauses(*clauses: str) -> str:
    """Return the clauses that are not empty, joined to one message."""
    # Messages of errors may be sentences: their period must not stand before the semicolon.
    return "; ".join(clause.removesuffix(".") for clause in clauses if clause)
