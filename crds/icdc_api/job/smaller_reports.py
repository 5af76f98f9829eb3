"""Make a run's report smaller step by step, with all of its tables.

What is omitted first can be found elsewhere: a message in the driver's log, a sample in the index.
Pure; knows neither the form of a report's text nor its limit. The steps are those of `report_text`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from icdc_api.base import shorten
from icdc_api.job import fewer_dead_letters
from icdc_api.job.answers import RunAnswer, fill
from icdc_api.job.run_files import RunReport
from icdc_api.status.pipeline_status import TableStatus

MESSAGE_OMITTED = "the message was omitted because the report is too large; read the driver's log"

SHORT_MESSAGE = 200
"""Characters of the beginning of a message, which names the cause."""

_DETAILS = ("index", "message", "why", "mappingChanges", "letters", "samples")
"""Fields of an entry in the result that are not bounded and that a reader can do without."""
DETAILS_OMITTED = "details of the result"
DEAD_LETTERS_OMITTED = "dead letters"


def iterate_smaller_reports(report: RunReport) -> Iterator[tuple[RunReport, list[str]]]:
    """Yield the report with less and less in it, all tables included, and what was omitted."""
    omitted: list[str] = []
    yield report, omitted
    if report.takes_questions:
        # It follows tables: what is known of them is more than an answer, which is read once.
        smallest = report, omitted
        for smallest in _iterate_smaller_results(report, omitted):
            yield smallest
        report, omitted = smallest
    if any(table.last_batch for table in report.tables):
        tables = tuple(table.model_copy(update={"last_batch": None}) for table in report.tables)
        report = report.model_copy(update={"tables": tables})
        omitted = [*omitted, "costs of last batches"]
        yield report, omitted
    tables = tuple(
        _replace_messages(table, lambda text: shorten(text, SHORT_MESSAGE))
        for table in report.tables
    )
    shorter = report.model_copy(update={"tables": tables})
    yield shorter, [*omitted, "ends of messages of tables"]
    tables = tuple(_replace_messages(table, lambda _: MESSAGE_OMITTED) for table in report.tables)
    report = report.model_copy(update={"tables": tables})
    omitted = [*omitted, "messages of tables"]
    yield report, omitted
    report = report.model_copy(update={"tables": tuple(_without_samples(t) for t in tables)})
    omitted = [*omitted, "samples of duplicates"]
    yield report, omitted
    if not report.takes_questions:
        yield from _iterate_smaller_results(report, omitted)


def _iterate_smaller_results(
    report: RunReport, omitted: list[str]
) -> Iterator[tuple[RunReport, list[str]]]:
    """Yield the report with less and less of its result, the smallest last; none without one."""
    if report.result is None:
        return
    for result in fewer_dead_letters.iterate_smaller_results(report.result):
        yield report.model_copy(update={"result": result}), [*omitted, DEAD_LETTERS_OMITTED]
    bare = _without_details(report.result)
    yield report.model_copy(update={"result": bare}), [*omitted, DETAILS_OMITTED]


def _replace_messages(table: TableStatus, replace: Callable[[str], str]) -> TableStatus:
    texts = {"message": table.message, "pin_message": table.pin_message}
    update = {field: replace(text) for field, text in texts.items() if text}
    return table.model_copy(update=update)


def _without_samples(table: TableStatus) -> TableStatus:
    if table.duplicates is None:
        return table
    bare = table.duplicates.model_copy(update={"samples": ()})
    return table.model_copy(update={"duplicates": bare})


def _without_details(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result with counts and verdicts of each table, without ids and long texts."""
    entries = fill(RunAnswer, result)["tables"]
    if not isinstance(entries, list):
        return dict(result)
    return {**result, "tables": [_without_detail(entry) for entry in entries]}


def _without_detail(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    bare = {key: value for key, value in entry.items() if key not in _DETAILS}
    for key, value in bare.items():
        if isinstance(value, dict):
            bare[key] = {name: item for name, item in value.items() if name != "samples"}
    return bare
