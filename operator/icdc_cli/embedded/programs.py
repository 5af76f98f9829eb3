"""Run a program of this host to its end, and say why where it fails.

The one place for that, here and in `tools/`: no program waits for input, none has unbounded time,
and what it printed last is in the error. Must not know which programs there are.
"""

import subprocess
from collections.abc import Mapping, Sequence
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
) -> str:
    """Run `command` with `text` as its input; return what it prints on standard output.

    Submission, which begins with `name`, where it cannot be started, takes more than `seconds`, or
    ends with another code than 0.
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
        raise Submission(f"{name} did not end well: {error}") from error
    if ended.returncode != 0:
        # Both: compilers write errors to standard error, and other tools to standard output.
        lines = (ended.stdout + ended.stderr).splitlines()[-SHOWN_LINES:]
        raise Submission(f"{name} failed:\n" + "\n".join(lines)[-SHOWN_TEXT:])
    return ended.stdout
