"""Make the answer of `icdc dead-letters list` smaller, so that it fits into a run's report.

The answer has a list of dead letters for each table, newest batches first, and no bound of its own:
`--documents` adds whole documents. What is dropped is counted in the table's message, so that an
answer that was cut off says so. Pure; knows neither the form of a report nor its limits.

    retained of each        3 tables with 4, 1 and 0 dead letters
    all                     4 1 0     the answer as it is, which did not fit
    2 of 3 of the most      2 1 0     "2 more are not shown"
    again                   1 1 0     "3 more are not shown"
    without documents       4 1 0     then 2 1 0 and 1 1 0 in the same way
"""

from collections.abc import Iterator, Mapping
from typing import Any

from icdc_api.job.answers import DeadLetterEntry, DeadLettersEntry, RunAnswer, fill


def iterate_smaller_results(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield `result` with ever fewer dead letters, largest first; nothing where it has none.

    Whole documents are dropped only where not even one dead letter of each table fits with them.
    """
    entries = fill(RunAnswer, result)["tables"]
    if not isinstance(entries, list):
        return
    most = max((len(_list_dead_letters(entry)) for entry in entries), default=0)
    has_documents = any(
        "document" in dead_letter for entry in entries for dead_letter in _list_dead_letters(entry)
    )
    count = _reduce_count(most)
    while count:
        yield {**result, "tables": [_cut_dead_letters(entry, count) for entry in entries]}
        count = _reduce_count(count)
    if not has_documents:
        return
    bare = {**result, "tables": [_without_documents(entry) for entry in entries]}
    yield bare
    yield from iterate_smaller_results(bare)


def _reduce_count(count: int) -> int:
    # Packing is what costs, and two thirds find a fit in 17 attempts from the 1,000 dead letters
    # that a table lists at most; the last attempt wastes at most a third of the room.
    return count * 2 // 3


def _list_dead_letters(entry: object) -> list[DeadLetterEntry]:
    if not isinstance(entry, Mapping):
        return []
    listed = fill(DeadLettersEntry, entry)["letters"]
    return listed if isinstance(listed, list) else []


def _cut_dead_letters(entry: DeadLettersEntry, count: int) -> DeadLettersEntry:
    dead_letters = _list_dead_letters(entry)
    if len(dead_letters) <= count:
        return entry
    # With a message the run itself has listed only a part, and `count` is the number of all dead
    # letters of the table. Otherwise the listed ones are all that were asked for.
    total = entry["count"] if entry.get("message") and "count" in entry else len(dead_letters)
    message = f"{total - count} more are not shown"
    return {**entry, "letters": dead_letters[:count], "message": message}


def _without_documents(entry: DeadLettersEntry) -> DeadLettersEntry:
    bare = [dead_letter.copy() for dead_letter in _list_dead_letters(entry)]
    for dead_letter in bare:
        dead_letter.pop("document", None)
    return {**entry, "letters": bare} if bare else entry
