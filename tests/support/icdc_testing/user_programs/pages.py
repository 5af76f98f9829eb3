"""Reads the fenced blocks of a page, and types commands as somebody does who follows it.

Knows nothing of what the commands do.
"""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path


def list_blocks(page: Path, info: str) -> list[str]:
    """Return the text of each block with that info string, such as `sh` or `sh uninstall`."""
    blocks: list[str] = re.findall(rf"```{info}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    return blocks


def type_commands(
    commands: str, environment: Mapping[str, str], *, folder: Path | None = None, seconds: float
) -> str:
    """Run the lines in a shell and return what they print; AssertionError where one fails."""
    done = subprocess.run(
        ["sh", "-ec", commands],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert done.returncode == 0, f"{commands}{done.stdout}{done.stderr}"
    return done.stdout
