"""A run's report as short text: the annotation of the driver's pod, and its termination message.

Kubernetes bounds both, so both are cut to fit here, and what was cut is said. What is read comes
from a pod that anyone with the right may edit, and from images of other versions: text that
cannot be read gives a reason, never an exception. Pure; knows neither a pod nor a file.
"""

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import ValidationError

from icdc_api import fewer_letters
from icdc_api.base import MAX_TEXT, ApiModel, Flag, ShortText
from icdc_api.explain import format_path
from icdc_api.job import RunReport
from icdc_api.naming import LABEL_PREFIX
from icdc_api.runs import Failure
from icdc_api.status import TableStatus

ANNOTATION_REPORT = f"{LABEL_PREFIX}report"
"""Annotation of the driver's pod that holds the newest report."""

MAX_ANNOTATION_BYTES = 200_000
"""All annotations of an object together have at most 256 KiB; others need room too."""
MAX_MESSAGE_BYTES = 4096
"""Of a termination message; the kubelet cuts off the rest."""
MAX_JSON_BYTES = 4 << 20
"""Of a report before it is packed: what a reader unpacks at most, whatever it was sent."""

OMITTED = "omitted"
"""Field beside those of a report: what was left out, in words."""
MESSAGE_OMITTED = "the message is left out of the report, which is too large; read the driver's log"

_DETAILS = ("index", "message", "why", "mappingChanges", "letters", "samples")
"""Of an entry in the result: what a reader can do without, and what has no bound."""
DETAILS_OMITTED = "details of the result"
DEAD_LETTERS_OMITTED = "dead letters"

Model = TypeVar("Model", bound=ApiModel)


class Parsed(NamedTuple, Generic[Model]):
    """What a text says."""

    value: Model | None
    """None when the text cannot be read."""
    problem: str | None = None
    """Why it cannot be read; beside a value, what of it is missing."""


class TerminationMessage(ApiModel):
    """The termination message: how a run ended, when nothing else of its pod is left."""

    run_id: ShortText
    """Identity of the attempt."""
    finished: Flag = False
    """Whether the run came to its own end."""
    outcome: Failure | None = None
    """Why the run as a whole failed; absent when it succeeded."""


def to_annotation(report: RunReport) -> str:
    """`report` as text of at most MAX_ANNOTATION_BYTES.

    What is too large loses first the messages of tables, then samples of duplicates, dead letters
    beyond the newest, samples and messages in the result, then whole tables, of which those that
    wait for somebody are kept longest. A result goes before any table only where it does not fit
    even alone: verdicts do.
    """
    smaller, omitted = report, list[str]()
    for smaller, omitted in _shrink(report):
        text = _pack(smaller, omitted)
        if text is not None:
            return text
    text = _with_fewer_tables(smaller, omitted)
    if text is None:
        smaller = smaller.model_copy(update={"result": None})
        omitted = [*(each for each in omitted if each != DETAILS_OMITTED), "the result"]
        text = _pack(smaller, omitted) or _with_fewer_tables(smaller, omitted)
    assert text is not None  # the fields beside tables and result are bounded
    return text


def from_annotation(text: str) -> Parsed[RunReport]:
    """The report in the text of an annotation."""
    try:
        document = _json_object(_unpack(text))
    except (ValueError, RecursionError, zlib.error) as error:
        return Parsed(None, _clip(f"the report is not one: {error}"))
    cut = document.pop(OMITTED, None)
    report, problem = _validate(RunReport, document)
    if report is None:
        return Parsed(None, problem)
    said = [] if cut is None else [f"left out of the report, which is too large: {cut}"]
    said += [] if problem is None else [problem]
    return Parsed(report, _clip("; ".join(said)) if said else None)


def to_termination_message(report: RunReport) -> str:
    """How `report` ends, as JSON of at most MAX_MESSAGE_BYTES bytes of UTF-8."""
    ending = TerminationMessage(
        run_id=report.run_id, finished=report.finished, outcome=report.outcome
    )
    text = _json(ending.to_resource())
    length = 0 if report.outcome is None else len(report.outcome.message)
    while len(text.encode()) > MAX_MESSAGE_BYTES:
        # Only a message is long enough; what a character costs depends on how it is escaped.
        length = length * 3 // 4
        text = _json(_with_message(ending, length).to_resource())
    return text


def from_termination_message(text: str) -> Parsed[TerminationMessage]:
    """How a run ended, from the termination message of its driver."""
    try:
        document = _json_object(text.encode(errors="replace"))
    except (ValueError, RecursionError) as error:
        return Parsed(None, _clip(f"the termination message is not an outcome: {error}"))
    return _validate(TerminationMessage, document)


def _with_message(ending: TerminationMessage, length: int) -> TerminationMessage:
    if ending.outcome is None:
        return ending
    message = f"{ending.outcome.message[:length]}…"
    outcome = ending.outcome.model_copy(update={"message": message})
    return ending.model_copy(update={"outcome": outcome})


def _shrink(report: RunReport) -> Iterator[tuple[RunReport, list[str]]]:
    """The report with ever less in it, every table still being there."""
    omitted: list[str] = []
    yield report, omitted
    tables = tuple(_without_message(table) for table in report.tables)
    report = report.model_copy(update={"tables": tables})
    omitted = [*omitted, "messages of tables"]
    yield report, omitted
    report = report.model_copy(update={"tables": tuple(_without_samples(t) for t in tables)})
    omitted = [*omitted, "samples of duplicates"]
    yield report, omitted
    if report.result is not None:
        for result in fewer_letters.smaller_results(report.result):
            yield report.model_copy(update={"result": result}), [*omitted, DEAD_LETTERS_OMITTED]
        bare = _without_details(report.result)
        yield report.model_copy(update={"result": bare}), [*omitted, DETAILS_OMITTED]


def _without_message(table: TableStatus) -> TableStatus:
    return table.model_copy(update={"message": MESSAGE_OMITTED}) if table.message else table


def _without_samples(table: TableStatus) -> TableStatus:
    if table.duplicates is None:
        return table
    bare = table.duplicates.model_copy(update={"samples": ()})
    return table.model_copy(update={"duplicates": bare})


def _without_details(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result with the counts and verdicts of each table, but without ids and long texts."""
    entries = result.get("tables")
    if not isinstance(entries, list):
        return dict(result)
    return {**result, "tables": [_without_detail(entry) for entry in entries]}


def _without_detail(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    bare = {key: value for key, value in entry.items() if key not in _DETAILS}
    for key, value in bare.items():
        if isinstance(value, dict):
            bare[key] = {name: each for name, each in value.items() if name != "samples"}
    return bare


def _with_fewer_tables(bare: RunReport, omitted: list[str]) -> str | None:
    """The text with as many tables as fit; None if it does not fit without any."""
    tables = bare.tables
    by_need = sorted(range(len(tables)), key=lambda position: tables[position].reason is None)

    def text(count: int) -> str | None:
        needed = tuple(tables[position] for position in sorted(by_need[:count]))
        words = [*omitted, f"{len(tables) - count} of {len(tables)} tables"]
        return _pack(bare.model_copy(update={"tables": needed}), words)

    fits, best = 0, text(0)
    if best is None:
        return None
    too_many = len(tables)
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if (candidate := text(middle)) is None:
            too_many = middle
        else:
            fits, best = middle, candidate
    return best


def _pack(report: RunReport, omitted: list[str]) -> str | None:
    """The text, or None when it is too large."""
    document = report.to_resource()
    if omitted:
        document[OMITTED] = ", ".join(omitted)
    data = _json(document, ascii_only=True).encode()
    if len(data) > MAX_JSON_BYTES:
        return None
    text = base64.b64encode(zlib.compress(data)).decode()
    return text if len(text) <= MAX_ANNOTATION_BYTES else None


def _unpack(text: str) -> bytes:
    """The bytes that were packed; raises ValueError or zlib.error."""
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(base64.b64decode(text, validate=True), MAX_JSON_BYTES)
    if unpacker.unconsumed_tail:
        raise ValueError(f"it has more than {MAX_JSON_BYTES} bytes")
    if not unpacker.eof:
        raise ValueError("its end is missing")
    return data


def _json(document: Mapping[str, Any], *, ascii_only: bool = False) -> str:
    return json.dumps(document, ensure_ascii=ascii_only, separators=(",", ":"))


def _json_object(data: bytes) -> dict[str, Any]:
    document = json.loads(data)
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")
    return document


def _validate(model: type[Model], document: dict[str, Any]) -> Parsed[Model]:
    """`document` as a `model`, without the fields and the tables that this version cannot know."""
    try:
        return Parsed(model.model_validate(document, by_alias=True, by_name=False))
    except ValidationError as error:
        problems = [(each["type"], each["loc"]) for each in error.errors(include_url=False)]
    for kind, path in problems:
        if kind == "extra_forbidden":
            _parent(document, path).pop(path[-1], None)
    # From the end, so that the positions of those before stay right.
    foreign = {
        path[1]
        for kind, path in problems
        if kind != "extra_forbidden" and path[0] == "tables" and len(path) >= 2
    }
    for position in sorted(foreign, reverse=True):
        del document["tables"][position]
    try:
        value = model.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        problem = f"{format_path(first['loc']) or 'document'}: {first['msg']}"
        return Parsed(None, _clip(f"not a {model.__name__} of this version: {problem}"))
    return Parsed(value, f"{len(foreign)} tables of another version" if foreign else None)


def _parent(document: dict[str, Any], path: tuple[int | str, ...]) -> dict[Any, Any]:
    node: Any = document
    for part in path[:-1]:
        node = node[part]
    found: dict[Any, Any] = node
    return found


def _clip(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
