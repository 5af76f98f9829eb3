"""Turn evidence about a run into a Failure: class, exact reason, bounded text. Pure.

What others wrote (kubelet, spark-operator, a driver's log) is quoted on one line and cut; of a log
only lines that no row can be in.
"""

import re
from datetime import datetime

from icdc_api.base import shorten
from icdc_api.errors import IcdcError
from icdc_api.status.runs import Failure
from icdc_operator.cluster.kube.kinds import Resource

MAX_FOREIGN_TEXT = 600
"""Most characters of somebody else's text in a message."""

MAX_LINES = 4
"""Most lines of a log in a message."""

MAX_LINE = 250
"""Characters of one such line: launchers and interpreters say what is wrong in fewer."""

_START_ERROR = re.compile(
    "|".join(
        (
            r"^error: \S+ cannot be started: ",  # the launcher in our image
            r"^\S*python[\d.]*: (can't open file |No module named )",
            r"^ModuleNotFoundError: No module named '[\w.]+'$",
            r"^ImportError: (cannot import name |lib\S+: cannot open )",
            # Shells, and what starts containers.
            r"^\S+: (line )?(\d+: )?\S+: (not found|command not found|No such file or directory"
            r"|Permission denied|cannot execute)",
            r"^exec \S+: (exec format error|no such file or directory|permission denied)",
            # The JVM, before any class of ours runs.
            r"^Error: Could not (find or load main class|create the Java Virtual Machine)",
            r"^Error: Unable to access jarfile ",
            r"^Unrecognized (VM )?option ",
            r"^Error occurred during initialization of VM$",
            r"^(Caused by: )?java\.lang\.(ClassNotFoundException|NoClassDefFoundError): [\w.$/]+$",
            r"^(Error: )?.*\bjava\.lang\.UnsupportedClassVersionError: [\w./]+ has been compiled ",
            r"^JAVA_HOME is not set",
        )
    )
)
"""Lines that are written before any row is read, by programs that know no rows."""
_ERROR_CLASS = re.compile(
    r"(?:Caused by: )?((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception))(?=:|$)"
)

_WORD = re.compile(r"[A-Z][A-Za-z0-9]{0,127}")


def build_failure(error: IcdcError, reason: str, *, retryable: bool | None = None) -> Failure:
    """Return the failure of `error` with a more exact `reason`, if that is a CamelCase word.

    `retryable` None: as the class of the error says.
    """
    base = Failure.of(error)
    more: dict[str, object] = {}
    if _WORD.fullmatch(reason):
        more["reason"] = reason
    if retryable is not None:
        more["retryable"] = retryable
    return base.model_copy(update=more)


def join_foreign_text(text: str, foreign: str) -> str:
    """Return `text: foreign` on one line, with at most MAX_FOREIGN_TEXT of the foreign text."""
    plain = " ".join(foreign.split())
    if not plain:
        return text
    return f"{text}: {shorten(plain, MAX_FOREIGN_TEXT)}"


def find_start_error(log: str) -> str:
    """Return the lines of a log that are known errors of a start, the last MAX_LINES of them.

        /opt/venv/bin/python: can't open file '/opt/x/main.py': [Errno 13]      quoted
        ModuleNotFoundError: No module named 'icdc_spark'                       quoted
        ValueError: invalid literal for int() with base 10: 'ann'               ValueError
        24/03/15 12:00:00 INFO TaskSetManager: row [4711, ann]                  left out

    The report of a driver may be lost, so that it never reported does not prove that it read no
    row. Any other error is quoted by the name of its class, where its line begins with one.
    """
    lines = [quoted for line in log.splitlines() if (quoted := _find_quotable(line.strip()))]
    # The last lines: programs print the cause after what led to it.
    return " | ".join(lines[-MAX_LINES:])


def _find_quotable(line: str) -> str:
    """Return the part of a log line that cannot hold a row; empty if there is none."""
    if len(line) <= MAX_LINE and _START_ERROR.search(line):
        return line
    describe = _ERROR_CLASS.match(line)
    return describe[1] if describe else ""


def describe(resource: Resource) -> str:
    """Return `kind/name`, as kubectl takes it."""
    kind = str(resource.get("kind") or "Pod").lower()
    return f"{kind}/{resource['metadata']['name']}"


def parse_moment(text: object) -> datetime | None:
    """Return the time in a field of the API; None if it is missing or is no time."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
