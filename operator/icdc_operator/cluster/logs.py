"""Set up the operator's log, whose lines are those of `icdc_api.job.log_lines`."""

import logging
import sys
from typing import TextIO

from icdc_api.job.log_lines import FORMATS, JsonFormatter, TextFormatter, label_lines

__all__ = ["FORMATS", "LEVELS", "label_lines", "set_up"]

LEVELS = ("debug", "info", "warning", "error")

_NOISY = ("kopf", "aiohttp", "asyncio", "kubernetes", "urllib3", "pyiceberg", "sqlalchemy")


def set_up(log_format: str, level: str, stream: TextIO | None = None) -> None:
    """Send every log line of the process to `stream` (standard error) in that format."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    # They log each request and each cycle: noise below a warning, and secrets at debug.
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)
