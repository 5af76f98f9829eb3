"""A run's report as bounded text: the annotation of the driver's pod, and its termination message.

Kubernetes bounds both, so both are shortened here, and say what was omitted. The text that is read
comes from a pod that anyone with permission may edit, and from images of other versions: text that
cannot be read gives a reason, never an exception. Pure; knows neither a pod nor a file.

    step  omitted until the annotation fits         retained
    1     nothing                                   all
    2     costs of last batches                     progress, messages
    3     ends of messages of tables                their first 200 characters
    4     messages of tables                        reasons, counts
    5     samples of duplicate keys                 counts
    6     dead letters, the newest last             the newest of them
    7     details of the result                     verdicts and counts of each table
    8     tables, those with a reason last          as many tables as fit
    9     the result, then step 8 again             the outcome of the run

Of a run that takes questions, steps 6 and 7 come before step 2: its result is an answer for one
person, who reads it within a minute, while the rest is the status of its tables for everybody.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import ValidationError

from icdc_api.base import MAX_TEXT, ApiModel, Flag, ShortText, shorten
from icdc_api.crd.explain import format_path
from icdc_api.job.run_files import RunReport
from icdc_api.job.smaller_reports import DETAILS_OMITTED, iterate_smaller_reports
from icdc_api.naming import LABEL_PREFIX
from icdc_api.status.runs import Failure

ANNOTATION_REPORT = f"{LABEL_PREFIX}report"
"""Annotation of the driver's pod that holds the newest report."""

MAX_ANNOTATION_BYTES = 200_000
"""Greatest size of the annotation. All annotations of an object have at most 256 KiB together, and
a pod has those of meshes and the like."""
MAX_MESSAGE_BYTES = 4096
"""Greatest size of a termination message; the kubelet cuts off the rest."""
MAX_JSON_BYTES = 4 << 20
"""Greatest size of a report before compression: a reader decompresses no more than this."""

OMITTED = "omitted"
"""Extra field beside those of a report: what was omitted, for people."""

Model = TypeVar("Model", bound=ApiModel)


class Parsed(NamedTuple, Generic[Model]):
    """The content of a text."""

    value: Model | None
    """The value; None where the text cannot be read."""
    problem: str | None = None
    """Why it cannot be read; beside a value, what is missing in it."""


class TerminationMessage(ApiModel):
    """The end of a run, for a reader to whom only the status of its pod is left."""

    run_id: ShortText
    """Identity of the attempt."""
    finished: Flag = False
    """Whether the run came to its own end."""
    outcome: Failure | None = None
    """Why the run as a whole failed; absent when it succeeded."""


def to_annotation(report: RunReport) -> str:
    """Return `report` as text of at most MAX_ANNOTATION_BYTES, shortened as in the table above."""
    smaller, omitted = report, list[str]()
    for smaller, omitted in iterate_smaller_reports(report):
        text = _pack(smaller, omitted)
        if text is not None:
            return text
    text = _with_fewer_tables(smaller, omitted)
    if text is None:
        smaller = smaller.model_copy(update={"result": _without_tables(smaller.result)})
        omitted = [*(part for part in omitted if part != DETAILS_OMITTED), "the result"]
        text = _pack(smaller, omitted) or _with_fewer_tables(smaller, omitted)
    assert text is not None  # the fields beside tables and result are bounded
    return text


def from_annotation(text: str) -> Parsed[RunReport]:
    """Return the report in the text of an annotation."""
    try:
        document = _parse_object(_unpack(text))
    except (ValueError, RecursionError, zlib.error) as error:
        return Parsed(
            None, shorten(f"the annotation cannot be read as a report: {error}", MAX_TEXT)
        )
    cut = document.pop(OMITTED, None)
    report, problem = _validate(RunReport, document)
    if report is None:
        return Parsed(None, problem)
    notes = [] if cut is None else [f"omitted because the report is too large: {cut}"]
    notes += [] if problem is None else [problem]
    return Parsed(report, shorten("; ".join(notes), MAX_TEXT) if notes else None)


def to_termination_message(report: RunReport) -> str:
    """Return the end of `report` as JSON of at most MAX_MESSAGE_BYTES bytes of UTF-8."""
    # Without escapes for what is not ASCII: bytes are bounded, and six for a letter are too many.
    ending = TerminationMessage(
        run_id=report.run_id, finished=report.finished, outcome=report.outcome
    )
    text = _format_json(ending.to_resource())
    length = 0 if report.outcome is None else len(report.outcome.message)
    while len(text.encode()) > MAX_MESSAGE_BYTES:
        # Ends, because without any message it fits.
        # Only the message can be too long; the bytes of a character depend on its escape.
        length = length * 3 // 4
        text = _format_json(_with_message(ending, length).to_resource())
    return text


def from_termination_message(text: str) -> Parsed[TerminationMessage]:
    """Return the end of a run from the termination message of its driver."""
    try:
        # Half of a surrogate pair, which JSON may hold, has no bytes in UTF-8.
        document = _parse_object(text.encode(errors="replace"))
    except (ValueError, RecursionError) as error:
        return Parsed(
            None, shorten(f"the termination message is not an outcome: {error}", MAX_TEXT)
        )
    return _validate(TerminationMessage, document)


def _with_message(ending: TerminationMessage, length: int) -> TerminationMessage:
    if ending.outcome is None:
        return ending
    message = f"{ending.outcome.message[:length]}…"
    outcome = ending.outcome.model_copy(update={"message": message})
    return ending.model_copy(update={"outcome": outcome})


def _without_tables(result: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return only the part of `result` that names the question; None without a result.

    By it the operator sees that the question was answered.
    """
    rest = {key: value for key, value in (result or {}).items() if key != "tables"}
    return rest or None


def _with_fewer_tables(bare: RunReport, omitted: list[str]) -> str | None:
    """Return the text with as many tables as fit, by bisection; None if none fits."""
    tables = bare.tables
    # Tables with a reason first: somebody must act on them, while others are merely fine.
    by_need = sorted(range(len(tables)), key=lambda position: tables[position].reason is None)

    def pack_tables(count: int) -> str | None:
        retained = tuple(tables[position] for position in sorted(by_need[:count]))
        parts = [*omitted, f"{len(tables) - count} of {len(tables)} tables"]
        return _pack(bare.model_copy(update={"tables": retained}), parts)

    # By bisection and not by an estimate: how well a report compresses depends on its content.
    fits, best = 0, pack_tables(0)
    if best is None:
        return None
    too_many = len(tables)
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if (candidate := pack_tables(middle)) is None:
            too_many = middle
        else:
            fits, best = middle, candidate
    return best


def _pack(report: RunReport, omitted: list[str]) -> str | None:
    """Return the compressed text; None if it is too large."""
    document = report.to_resource()
    if omitted:
        document[OMITTED] = ", ".join(omitted)
    data = _format_json(document, ascii_only=True).encode()
    if len(data) > MAX_JSON_BYTES:
        return None
    # ASCII before, so that characters and bytes are the same number, and Base64 after, because an
    # annotation is text.
    text = base64.b64encode(zlib.compress(data)).decode()
    return text if len(text) <= MAX_ANNOTATION_BYTES else None


def _unpack(text: str) -> bytes:
    """Return the bytes in a compressed text; ValueError or zlib.error if there are none."""
    # Bounded: a few bytes could otherwise expand to more than the operator has memory for.
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(base64.b64decode(text, validate=True), MAX_JSON_BYTES)
    if unpacker.unconsumed_tail:
        raise ValueError(f"it has more than {MAX_JSON_BYTES} bytes")
    if not unpacker.eof:
        raise ValueError("its end is missing")
    return data


def _format_json(document: Mapping[str, Any], *, ascii_only: bool = False) -> str:
    return json.dumps(document, ensure_ascii=ascii_only, separators=(",", ":"))


def _parse_object(data: bytes) -> dict[str, Any]:
    document = json.loads(data)
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")
    return document


def _validate(model: type[Model], document: dict[str, Any]) -> Parsed[Model]:
    """Return `document` as a `model`, without fields and tables of other versions."""
    try:
        return Parsed(model.model_validate(document, by_alias=True, by_name=False))
    except ValidationError as error:
        problems = [(detail["type"], detail["loc"]) for detail in error.errors(include_url=False)]
    # Once more without what is foreign. The image of a run may be newer than the operator, and
    # report fields unknown to it.
    for kind, path in problems:
        if kind == "extra_forbidden":
            _find_parent(document, path).pop(path[-1], None)
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
        return Parsed(None, shorten(f"not a {model.__name__} of this version: {problem}", MAX_TEXT))
    return Parsed(value, f"{len(foreign)} tables of another version" if foreign else None)


def _find_parent(document: dict[str, Any], path: tuple[int | str, ...]) -> dict[Any, Any]:
    node: Any = document
    for part in path[:-1]:
        node = node[part]
    parent: dict[Any, Any] = node
    return parent
