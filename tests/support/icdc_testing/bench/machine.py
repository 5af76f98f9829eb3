"""What a benchmark says of the machine and the versions that it ran on."""

import importlib.metadata
import os
import platform
from typing import Any


def machine(*packages: str) -> dict[str, Any]:
    """Return the machine, its load now, and the versions of Python and of these packages."""
    return {
        "machine": f"{os.cpu_count()} cores, {platform.platform()}",
        "load": os.getloadavg(),
        "python": platform.python_version(),
        **{package: importlib.metadata.version(package) for package in packages},
    }
