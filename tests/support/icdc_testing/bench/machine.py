"""What a benchmark says of the machine and the versions that it ran on, and of its runs."""

import importlib.metadata
import json
import os
import platform
import sys
from typing import Any


def describe_machine(*packages: str) -> dict[str, Any]:
    """Return the machine, its load now, and the versions of Python and of these packages."""
    return {
        "machine": f"{os.cpu_count()} cores, {platform.platform()}",
        "load": os.getloadavg(),
        "python": platform.python_version(),
        **{package: importlib.metadata.version(package) for package in packages},
    }


def print_runs(result: dict[str, Any], *, as_table: bool) -> None:
    """Print the result of a benchmark: by `format_runs`, or as one JSON object."""
    text = format_runs(result) if as_table else json.dumps(result, indent=1)
    sys.stdout.write(text + "\n")


def format_runs(result: dict[str, Any]) -> str:
    """Return the entries of `runs`, which have equal keys, as a Markdown table, then the rest."""
    names = list(result["runs"][0])
    rows = [" | ".join(str(run[name]) for name in names) for run in result["runs"]]
    header = " | ".join(name.replace("_", " ") for name in names)
    lines = [f"| {header} |", "|---" * len(names) + "|", *(f"| {row} |" for row in rows)]
    about = ", ".join(f"{key} {value}" for key, value in result.items() if key != "runs")
    return "\n".join([*lines, "", about])
