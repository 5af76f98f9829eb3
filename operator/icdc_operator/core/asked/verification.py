"""Results of comparisons of index and table: from a run's answer into the status and its messages.

Nothing counts as equal that was not compared. The answer comes from a driver's pod, so an entry
that cannot be read counts as not answered. Pure; which run compares, and when, is in `comparisons`.

    answer of a table                      result       condition Verified
    equal                                  Equal        True
    not equal, all differences repaired    Repaired     True
    not equal, some differ after a repair  Different    False
    not equal during a batch under way     NotVerified  Unknown
    no answer, or a reason                 NotVerified  Unknown
"""

import itertools
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum

from pydantic import ValidationError

from icdc_api.base import drop_name, format_count
from icdc_api.job.answers import BATCH_UNDER_WAY, DIFFERENCE_KINDS, RunAnswer, fill
from icdc_api.job.run_files import RunReport, TableComparison
from icdc_api.status.pipeline_status import MAX_SAMPLES, TableStatus, Verification
from icdc_api.status.runs import Failure
from icdc_operator.core import retry

MAX_ALL_SAMPLES = 200
"""Sample ids in the status over all tables; each table that differs shows at least one."""


class ComparisonResult(StrEnum):
    """The result of a comparison for one table."""

    EQUAL = "Equal"
    """Index and table were equal."""
    REPAIRED = "Repaired"
    """They differed, and every document that differed was repaired."""
    DIFFERENT = "Different"
    """They differ."""
    NOT_VERIFIED = "NotVerified"
    """They could not be compared, or nothing asked for it."""


STATUS_BY_RESULT = {
    ComparisonResult.DIFFERENT: False,
    ComparisonResult.NOT_VERIFIED: None,
    ComparisonResult.REPAIRED: True,
    ComparisonResult.EQUAL: True,
}
"""Status of the condition Verified by result; the worst result comes first."""


def classify(verification: Verification) -> ComparisonResult:
    """Return the result that `verification` stands for, see the table above."""
    if verification.equal is None:
        return ComparisonResult.NOT_VERIFIED
    if verification.equal:
        return ComparisonResult.EQUAL
    # Fewer, where the index refuses a row: that document still differs.
    repaired = verification.repaired
    complete = repaired is not None and repaired >= _count_differences(verification)
    return ComparisonResult.REPAIRED if complete else ComparisonResult.DIFFERENT


def group_by_result(tables: Iterable[TableStatus]) -> dict[ComparisonResult, list[TableStatus]]:
    """Return the tables that were compared, by result."""
    groups: dict[ComparisonResult, list[TableStatus]] = {result: [] for result in ComparisonResult}
    for table in tables:
        if table.verification is not None:
            groups[classify(table.verification)].append(table)
    return groups


def find_worst(tables: Iterable[TableStatus]) -> tuple[ComparisonResult, list[TableStatus]]:
    """Return the worst result of all tables, and the tables that have it."""
    groups = group_by_result(tables)
    for result in STATUS_BY_RESULT:
        if groups[result]:
            return result, groups[result]
    return ComparisonResult.NOT_VERIFIED, []


def describe_table(table: TableStatus) -> str:
    """Return the result of the last comparison for a message, without document ids."""
    last = table.verification
    if last is None:
        return table.name
    match classify(last):
        case ComparisonResult.EQUAL:
            counts = "" if last.documents is None else format_count(last.documents, "document")
            refused = format_count(last.refused or 0, "refused row") if last.refused else ""
            text = ", and ".join(part for part in (counts, refused) if part)
            return f"{table.name}: {text}" if text else table.name
        case ComparisonResult.REPAIRED:
            documents = format_count(last.repaired or 0, "document")
            return f"{table.name}: {documents} repaired, not compared again since"
        case ComparisonResult.NOT_VERIFIED:
            message = drop_name(table.name, last.message or "see the log of the run")
            return f"{table.name}: {last.reason}: {message}"
    counts = ", ".join(f"{getattr(last, kind)} {kind}" for kind in DIFFERENCE_KINDS)
    repaired = "" if last.repaired is None else f"; {last.repaired} of them repaired"
    return f"{table.name}: {counts}{repaired}"


def read_answers(report: RunReport | None) -> dict[str, TableComparison]:
    """Return the answers of an ended run, by table name; empty while it is running."""
    return parse_answers(report) if report is not None and report.finished else {}


def parse_answers(report: RunReport | None) -> dict[str, TableComparison]:
    """Return the answers in a report so far, by table name."""
    if report is None or report.result is None:
        return {}
    listed = fill(RunAnswer, report.result)["tables"]
    answers: dict[str, TableComparison] = {}
    for entry in listed if isinstance(listed, list) else ():
        try:
            answer = TableComparison.model_validate(_select_known_fields(entry))
        except ValidationError:
            continue  # one damaged entry must not hide the answers of other tables
        if answer.equal is not None or answer.reason is not None:
            answers[answer.name] = answer
    return answers


def find_passing_failure(answered: Iterable[TableComparison]) -> Failure | None:
    """Return the first passing fault that kept a table from being compared, else None."""
    passing = {reason.value for reason in retry.PASSING_REASONS}
    # One is enough: the run is repeated as a whole.
    for answer in answered:
        if answer.equal is None and answer.reason in passing:
            return retry.build_passing_failure(
                answer.name, reason=answer.reason, message=answer.message
            )
    return None


def apply_answers(
    tables: Iterable[TableStatus],
    answered: Mapping[str, TableComparison],
    *,
    nonce: int | None,
    now: datetime,
) -> tuple[TableStatus, ...]:
    """Return `tables` with their verification, and as many samples as there is room for."""
    # Shared out among the tables that differ: 100 of them with 20 ids each would make the status
    # larger than what etcd and every watcher should carry.
    differing = sum(1 for answer in answered.values() if answer.equal is False)
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
    nonce: int | None,
    now: datetime,
) -> tuple[TableStatus, ...]:
    """Return `tables`, those in `names` as NotVerified because of `failure`."""
    unverified = Verification(nonce=nonce, at=now, reason=failure.reason, message=failure.message)
    wanted = set(names)
    return tuple(
        table.model_copy(update={"verification": unverified}) if table.name in wanted else table
        for table in tables
    )


def _select_known_fields(entry: object) -> object:
    """Return `entry` without fields that another version of the driver may have added."""
    if not isinstance(entry, dict):
        return entry
    fields = {field.alias for field in TableComparison.model_fields.values()}
    return {key: value for key, value in entry.items() if key in fields}


def _to_verification(
    answer: TableComparison, room: int, *, nonce: int | None, now: datetime
) -> Verification:
    equal, reason, message = answer.equal, answer.reason, answer.message
    # A batch may explain the difference, so nothing is claimed; equal is equal all the same.
    if answer.under_way and not equal:
        equal, reason = None, reason or BATCH_UNDER_WAY
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
        refused=answer.refused,
        repaired=answer.repaired,
        # Interleaved before the cut, so that samples of every kind are left.
        samples=tuple(_interleave_samples(answer)[:room]),
        reason=None if equal is not None else reason,
        message=message,
    )


def _interleave_samples(answer: TableComparison) -> list[str]:
    """Return sample ids behind their kind: one missing, one extra, one different, and so on."""
    by_kind = [
        [f"{kind} {id_}" for id_ in getattr(answer, kind).samples] for kind in DIFFERENCE_KINDS
    ]
    return [text for row in itertools.zip_longest(*by_kind) for text in row if text is not None]


def _count_differences(verification: Verification) -> int:
    return sum(getattr(verification, kind) or 0 for kind in DIFFERENCE_KINDS)
