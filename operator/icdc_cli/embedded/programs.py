"""Run a program of this host to its end, and say why where it fails.

The one place for that, here and for the tools that build images: no program waits for input, none
has unbounded time, and what it printed last is in the error. A credential plugin is another matter
(`cluster.credentials`): it may ask a person, and take its time. So are programs that go on beside
ours, such as `opensearch_node`. Must not know which programs there are.
"""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from icdc_api.errors import Submission

SHOWN_LINES = 20
"""Last lines of the output in a message: enough for the cause, which most programs print last."""
SHOWN_TEXT = 2000
"""Characters of them at most: a compiler quotes long lines."""


def run_program(
    command: Sequence[str],
    *,
    name: str,
    seconds: float,
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
    text: str = "",
    explain: Callable[[str], str] | None = None,
) -> str:
    """Run `command` with `text` as its input; return what it prints on standard output.

    Submission, which begins with `name`, where it cannot be started, takes more than `seconds`, or
    ends with another code than 0. With `explain` the message is what that returns for the text that
    the program printed, or for the error that says why it did not end.
    """
    try:
        ended = subprocess.run(
            command,
            cwd=folder,
            env=env,
            input=text,  # also when empty: a question then ends, instead of waiting for a person
            capture_output=True,
            text=True,
            # A path in a foreign encoding must not turn a message into a UnicodeDecodeError.
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = explain(str(error)) if explain else f"{name} did not end well: {error}"
        raise Submission(why) from error
    if ended.returncode != 0:
        # Both: compilers write errors to standard error, and other tools to standard output.
        printed = ended.stdout + ended.stderr
        raise Submission(explain(printed) if explain else f"{name} failed:\n{_shorten(printed)}")
    return ended.stdout


def _shorten(printed: str) -> str:
    return "\n".join(printed.splitlines()[-SHOWN_LINES:])[-SHOWN_TEXT:]
