"""What comparisons of index and table have found: from a run's answer into the status, and back.

Nothing is called equal that was not compared. The answer comes from a driver's pod, so what cannot
be read of it counts as not answered. Pure; which run compares, and when, is in `comparisons`.
"""

import itertools
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum

from pydantic import ValidationError

from icdc_api.job import RunReport, TableComparison
from icdc_api.runs import Failure
from icdc_api.status import MAX_SAMPLES, TableStatus, Verification
from icdc_operator.core import retry

MAX_ALL_SAMPLES = 200
"""Ids that the status shows of all tables together; each that differs shows at least one."""

UNDER_WAY = "BatchUnderWay"
"""The index held a part of a batch, which is among what differs."""

_KINDS = ("missing", "extra", "different")


class ComparisonResult(StrEnum):
    """What a comparison says of one table."""

    EQUAL = "Equal"
    REPAIRED = "Repaired"
    DIFFERENT = "Different"
    NOT_VERIFIED = "NotVerified"


STATUS_BY_RESULT = {
    ComparisonResult.DIFFERENT: False,
    ComparisonResult.NOT_VERIFIED: None,
    ComparisonResult.REPAIRED: True,
    ComparisonResult.EQUAL: True,
}
"""Whether index and table are known to be equal; what weighs more comes first."""


def classify(found: Verification) -> ComparisonResult:
    """The one word for it. Repaired: every document that differed was mended."""
    if found.equal is None:
        return ComparisonResult.NOT_VERIFIED
    if found.equal:
        return ComparisonResult.EQUAL
    # A row that the index refuses is not mended.
    mended = found.repaired is not None and found.repaired >= _count_differences(found)
    return ComparisonResult.REPAIRED if mended else ComparisonResult.DIFFERENT


def group_by_result(tables: Iterable[TableStatus]) -> dict[ComparisonResult, list[TableStatus]]:
    """The tables of which a comparison has said something, by what it said."""
    found: dict[ComparisonResult, list[TableStatus]] = {each: [] for each in ComparisonResult}
    for table in tables:
        if table.verification is not None:
            found[classify(table.verification)].append(table)
    return found


def find_worst(tables: Iterable[TableStatus]) -> tuple[ComparisonResult, list[TableStatus]]:
    """What the comparisons say of the pipeline, and the tables of which they say it."""
    found = group_by_result(tables)
    return next(
        ((each, found[each]) for each in STATUS_BY_RESULT if found[each]),
        (ComparisonResult.NOT_VERIFIED, []),
    )


def describe_table(table: TableStatus) -> str:
    """What the last comparison says of the table, in a few words and without document ids."""
    found = table.verification
    if found is None:
        return table.name
    match classify(found):
        case ComparisonResult.EQUAL:
            counted = "" if found.documents is None else f": {found.documents} documents"
            return f"{table.name}{counted}"
        case ComparisonResult.REPAIRED:
            return f"{table.name}: {found.repaired} documents mended, not compared again since"
        case ComparisonResult.NOT_VERIFIED:
            return f"{table.name}: {found.reason}: {found.message or 'see the log of the run'}"
    counts = ", ".join(f"{getattr(found, kind)} {kind}" for kind in _KINDS)
    mended = "" if found.repaired is None else f"; {found.repaired} of them mended"
    return f"{table.name}: {counts}{mended}"


def read_answers(report: RunReport | None) -> dict[str, TableComparison]:
    """What a run has answered, by table; nothing before it has ended."""
    if report is None or not report.finished or report.result is None:
        return {}
    listed = report.result.get("tables")
    found: dict[str, TableComparison] = {}
    for entry in listed if isinstance(listed, list) else ():
        try:
            answer = TableComparison.model_validate(_select_known_fields(entry))
        except ValidationError:
            continue
        if answer.equal is not None or answer.reason is not None:
            found[answer.name] = answer
    return found


def find_passing_failure(answered: Iterable[TableComparison]) -> Failure | None:
    """The first passing fault that kept a table from being compared."""
    passing = {each.value for each in retry.PASSING_REASONS}
    for answer in answered:
        if answer.equal is None and answer.reason in passing:
            return retry.build_passing_failure(answer.name, answer.reason, answer.message)
    return None


def apply_answers(
    tables: Iterable[TableStatus],
    answered: Mapping[str, TableComparison],
    *,
    nonce: int,
    now: datetime,
) -> tuple[TableStatus, ...]:
    """`tables` with what was found, and with as many samples as there is room for."""
    differing = sum(1 for each in answered.values() if each.equal is False)
    room = max(1, min(MAX_SAMPLES, MAX_ALL_SAMPLES // max(1, differing)))
    return tuple(
        table.model_copy(
            update={
                "verification": _to_verification(answered[table.name], room, nonce=nonce, now=now)
            }
        )
        if table.name in answered
        else table
        for table in tables
    )


def apply_failure(
    tables: Iterable[TableStatus],
    failure: Failure,
    names: Iterable[str],
    *,
    nonce: int,
    now: datetime,
) -> tuple[TableStatus, ...]:
    """`tables`, those of `names` as not compared because of `failure`."""
    unknown = Verification(nonce=nonce, at=now, reason=failure.reason, message=failure.message)
    wanted = set(names)
    return tuple(
        table.model_copy(update={"verification": unknown}) if table.name in wanted else table
        for table in tables
    )


def _select_known_fields(entry: object) -> object:
    """Without the fields that another version may have added."""
    if not isinstance(entry, dict):
        return entry
    fields = {field.alias for field in TableComparison.model_fields.values()}
    return {key: value for key, value in entry.items() if key in fields}


def _to_verification(
    answer: TableComparison, room: int, *, nonce: int, now: datetime
) -> Verification:
    equal, reason, message = answer.equal, answer.reason, answer.message
    if answer.under_way and not equal:
        equal, reason = None, reason or UNDER_WAY
    return Verification(
        nonce=nonce,
        at=now,
        snapshot_id=answer.snapshot_id,
        equal=equal,
        rows=answer.rows,
        documents=answer.documents,
        missing=None if answer.equal is None else answer.missing.count,
        extra=None if answer.equal is None else answer.extra.count,
        different=None if answer.equal is None else answer.different.count,
        repaired=answer.repaired,
        samples=tuple(_interleave_samples(answer)[:room]),
        reason=None if equal is not None else reason,
        message=message,
    )


def _interleave_samples(answer: TableComparison) -> list[str]:
    """Ids with their kinds, one of each kind after the other."""
    by_kind = [[f"{kind} {each}" for each in getattr(answer, kind).samples] for kind in _KINDS]
    return [each for row in itertools.zip_longest(*by_kind) for each in row if each is not None]


def _count_differences(found: Verification) -> int:
    return sum(getattr(found, kind) or 0 for kind in _KINDS)
