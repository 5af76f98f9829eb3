"""How a finding about a run becomes a failure: class, exact reason, bounded text. Pure."""

import re
from datetime import datetime

from icdc_api.errors import IcdcError
from icdc_api.runs import Failure
from icdc_operator.cluster.kube.kinds import Resource

MAX_TOLD = 600
"""Characters of somebody else's text that go into a message."""

MAX_LINES = 4
"""Lines of a log that go into a message."""

_WORD = re.compile(r"[A-Z][A-Za-z0-9]{0,127}")


def failure(error: IcdcError, reason: str, *, retryable: bool | None = None) -> Failure:
    """The failure of that error; `reason` says more exactly which, where it is a word.

    `retryable` None: as the class of the error says.
    """
    found = Failure.of(error)
    more: dict[str, object] = {}
    if _WORD.fullmatch(reason):
        more["reason"] = reason
    if retryable is not None:
        more["retryable"] = retryable
    return found.model_copy(update=more)


def joined(text: str, told: str) -> str:
    """`text`, and what somebody else told, on one line and not too much of it."""
    plain = " ".join(told.split())
    if not plain:
        return text
    return f"{text}: {plain if len(plain) <= MAX_TOLD else plain[: MAX_TOLD - 1] + '…'}"


def ending(log: str) -> str:
    """The last lines of a log, as many as fit into a message; what is said last is the cause."""
    lines: list[str] = []
    for line in reversed([each.strip() for each in log.splitlines() if each.strip()]):
        if sum(map(len, lines)) + len(line) > MAX_TOLD - MAX_LINES:
            break
        lines.insert(0, line)
        if len(lines) == MAX_LINES:
            break
    return " | ".join(lines) or log.strip()[-MAX_TOLD:]


def named(resource: Resource) -> str:
    """The object in words, as kubectl takes it."""
    kind = str(resource.get("kind") or "Pod").lower()
    return f"{kind}/{resource['metadata']['name']}"


def moment(text: object) -> datetime | None:
    """The time in a field of the API; None for what is not there or is none."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
