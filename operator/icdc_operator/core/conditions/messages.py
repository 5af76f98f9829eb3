"""Clauses that messages of conditions and Events share: lists of tables, and who must act.

Pure text. A message is a few clauses joined by semicolons, so that a table's own text, which may
hold sentences, can stand in it. It says in this order: what happened, to what, what happens next,
who acts.
"""

from collections.abc import Callable, Iterable, Sequence

from icdc_api.base import shorten
from icdc_api.errors import WhoActs
from icdc_api.status.pipeline_status import TableStatus
from icdc_operator.core import retry

# kubectl shows a message on one line of a terminal; five tables are about what can be read there.
MAX_LISTED = 5
"""Things that a message lists one by one; the others are counted."""

MAX_LIST = 800
"""Characters of a list: the rest of a message (`base.MAX_TEXT`; an Event has 1,000) is for what
stands before and behind it, such as a number and all of `errors.WhoActs`."""


AFTER_REFUSALS = "correct the rows or the mapping, then run icdc dead-letters replay"
"""What the author does about dead letters."""

AFTER_DIFFERENCES = "icdc verify --repair, or spec.resync with mode Repair, corrects the documents"
"""What the author does about documents that differ."""


def list_tables(tables: Sequence[TableStatus], describe: Callable[[TableStatus], str]) -> str:
    """Return `describe(table)` of the first MAX_LISTED tables, and how many more there are."""
    return list_some([describe(table) for table in tables[:MAX_LISTED]], total=len(tables))


def list_some(texts: Sequence[str], *, total: int) -> str:
    """Return the first MAX_LISTED of `texts`, cut to MAX_LIST, and how many of `total` are left.

    Each may have its share of the room: a message of one table must not hide the next ones, nor
    their number.
    """
    listed = texts[:MAX_LISTED]
    rest = f"; and {total - len(listed)} more" if total > len(listed) else ""
    text = "; ".join(listed)
    if len(text) + len(rest) > MAX_LIST:
        share = (MAX_LIST - len(rest)) // len(listed) - len("; ")
        text = "; ".join(shorten(one, share) for one in listed)
    return text + rest


def require_action(who: WhoActs | str) -> str:
    """Return the clause that names who must act before the problem can be solved."""
    return f"action required: {who.value if isinstance(who, WhoActs) else who}"


def require_owners(tables: Iterable[TableStatus]) -> str:
    """Return the clause that names who must act on these tables, each of them once.

    reasons of the tables         clause
    Gap, Gap                      action required: the author of the pipeline
    Gap, TargetReadOnly           action required: the administrator of OpenSearch, the author of …
    SourceUnavailable             none: it is retried
    """
    reasons = {table.reason for table in tables if table.reason is not None}
    who = {retry.find_who_acts(reason.value) for reason in reasons} - {WhoActs.NOBODY}
    return require_action(", ".join(sorted(who))) if who else ""


def join_clauses(*clauses: str) -> str:
    """Return the clauses that are not empty, joined to one message."""
    # Messages of errors may be sentences: their period must not stand before the semicolon.
    return "; ".join(clause.removesuffix(".") for clause in clauses if clause)
