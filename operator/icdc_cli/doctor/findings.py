"""The findings of checks, and the exit code and the text of many of them. Pure.

A check is a function from what was read to findings. It reads nothing itself, so that each way in
which an installation breaks is a value in a test. One that cannot be judged is a finding too: a
list without a problem must not hide that something was not checked.

    Ok           what was checked is as it should be
    Warning      works today, or for others only
    Problem      a pipeline does not work, or will not
    NotChecked   could not be read; the text says why, the cure who can
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from icdc_cli.exits import Exit
from icdc_cli.tables import text_tables

_HEAD = ("RESULT", "CHECK", "FOUND")


class Result(StrEnum):
    """The outcome of a check, see the module."""

    OK = "Ok"
    """As it should be."""
    WARNING = "Warning"
    """It works today, or for others only."""
    PROBLEM = "Problem"
    """A pipeline does not work, or will not."""
    NOT_CHECKED = "NotChecked"
    """It could not be read."""


@dataclass(frozen=True)
class Finding:
    """The outcome of one check of one thing."""

    check: str
    """What was checked, such as "Secret search"."""
    result: Result
    """Whether somebody has to act."""
    observation: str = ""
    """What was found, or why it was not checked. Never the value of a Secret."""
    cure: str = ""
    """What to do, as a command where there is one; empty with Ok."""
    code: Exit = Exit.STALLED
    """The exit code of a problem that is the only one."""

    def to_document(self) -> dict[str, Any]:
        """Return the fields for programs."""
        return {
            "check": self.check,
            "result": self.result.value,
            "found": self.observation,
            "cure": self.cure,
        }


def confirm(check: str, observation: str = "") -> Finding:
    """Return that it is as it should be."""
    return Finding(check, Result.OK, observation)


def warn(check: str, observation: str, cure: str) -> Finding:
    """Return a warning."""
    return Finding(check, Result.WARNING, observation, cure)


def blame(check: str, observation: str, cure: str, *, code: Exit = Exit.STALLED) -> Finding:
    """Return a problem."""
    return Finding(check, Result.PROBLEM, observation, cure, code)


def blame_server(check: str, observation: str, cure: str, *, may_pass: bool) -> Finding:
    """Return the problem of a server, which may answer later, or asked from elsewhere."""
    return blame(check, observation, cure, code=Exit.OUTLASTED if may_pass else Exit.STALLED)


def skip(check: str, why: str, cure: str = "") -> Finding:
    """Return that it was not checked."""
    return Finding(check, Result.NOT_CHECKED, why, cure)


def choose_exit(findings: Iterable[Finding]) -> Exit:
    """Return 0 without a problem, and otherwise the code of the one that a person mends first.

    That is 2 with a wrong spec, of which nothing else was judged, 3 only where every problem is a
    server that does not answer, else 1. Warnings do not count: a script that stops at each would be
    switched off.
    """
    codes = {finding.code for finding in findings if finding.result is Result.PROBLEM}
    by_urgency = (Exit.USAGE, Exit.STALLED, Exit.OUTLASTED)
    return next((code for code in by_urgency if code in codes), Exit.DONE)


def format_findings(findings: Sequence[Finding]) -> str:
    """Return a line for each finding, with its cure on the line below, and a count at the end."""
    rows = [(one.result.value, one.check, one.observation) for one in findings]
    heading, *lines = text_tables.align(_HEAD, rows).split("\n")
    shown = [heading]
    for finding, line in zip(findings, lines, strict=True):
        shown += [line, *([f"    -> {_join(finding.cure)}"] if finding.cure else [])]
    return "\n".join([*shown, "", ", ".join(_count(findings))])


def _count(findings: Sequence[Finding]) -> Iterator[str]:
    for result in (Result.PROBLEM, Result.WARNING, Result.NOT_CHECKED, Result.OK):
        yield f"{sum(finding.result is result for finding in findings)} {result.value}"


def _join(text: str) -> str:
    return " ".join(text.splitlines())
