"""Lines of a log that say what they are about: JSON for machines, or text for a terminal.

Operator and drivers write the same form. `label_lines` binds pipeline, run and table to every line
that is logged within its block, by any module, so that no message has to repeat them. Log lines
hold no row content because no message does.

    with label_lines(pipeline="team/shop"):
        log.warning("no answer")    {…, "message": "no answer", "pipeline": "team/shop"}
"""

import contextvars
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

FORMATS = ("json", "text")

FORMAT_VARIABLE = "ICDC_LOG_FORMAT"
"""Environment variable with the format of the log: of the operator, and of its drivers."""

_FIELDS = ("pipeline", "run", "table")
# A context variable and not a global: workers are tasks of one thread, tables are threads.
_labels: contextvars.ContextVar[dict[str, str]] = contextvars.ContextVar("icdc-log-labels")


@contextmanager
def label_lines(**fields: str) -> Iterator[None]:
    """Add pipeline, run or table to the lines that are logged in this block."""
    token = _labels.set({**_labels.get({}), **fields})
    try:
        yield
    finally:
        _labels.reset(token)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time (RFC 3339), level, logger, message, pipeline, run, table."""

    def __init__(self, **fields: str) -> None:
        """`fields` are in every line, where nothing else gives the same field."""
        super().__init__()
        self._fields = fields

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._fields,
            **_merge_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """One line of text for people, with the same fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _merge_fields(record).items())
        moment = datetime.fromtimestamp(record.created, UTC)
        line = f"{moment:%H:%M:%S} {record.levelname.lower():7} {record.getMessage()}{fields}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


def format_for_people(line: str) -> str:
    """Return a line of `JsonFormatter` as text, without pipeline and run; others as they are.

    {"time": "2026-03-01T12:00:00.000Z", "level": "info", "message": "caught up", "table": "a"}
    2026-03-01T12:00:00.000Z info    caught up table=a
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(fields, dict) or not {"time", "level", "message"} <= fields.keys():
        return line
    table = f" table={fields['table']}" if "table" in fields else ""
    text = f"{fields['time']} {fields['level']!s:7} {fields['message']}{table}"
    if "exception" in fields:
        text = f"{text}\n{fields['exception']}"
    # Indented, so that no message can look like a line of its own.
    return "\n    ".join(text.splitlines()) + line[len(line.rstrip("\r\n")) :]


def _merge_fields(record: logging.LogRecord) -> dict[str, str]:
    """Return pipeline, run and table of a line: by `label_lines`, or from `extra`, which wins."""
    given = {name: str(record.__dict__[name]) for name in _FIELDS if name in record.__dict__}
    return {**_labels.get({}), **given}
