"""Mend what a table's properties say about reading, where Iceberg would refuse to read at all.

Whoever may write to a table may set its properties, and no row depends on these: a text that is no
number, or a number out of reason, is not worth a table that stalls.

    read.split.target-size = "0"          a task reads 1048576 bytes at most, the least
    read.split.target-size = "many"       134217728 bytes, Iceberg's default
    read.split.target-size = "64m"        the same: Iceberg knows no units
    read.split.planning-lookback = "5"    as it is
    read.split.planning-lookback = "0"    read with lookback 1

What a task reads in fact, and what a file counts at least, `parallelism` chooses.
"""

from collections.abc import Mapping
from typing import NamedTuple

MIB = 1024 * 1024
TARGET_SIZE = "read.split.target-size"
"""The property for the compressed bytes that one task reads at most."""


class _Reading(NamedTuple):
    option: str
    """The read option that goes over the property."""
    least: int
    """Below it Iceberg refuses, or a file becomes thousands of tasks."""
    most: int
    """Above it a task holds more rows at a time than it has memory for."""
    default: int
    """Iceberg's own."""


_READINGS: Mapping[str, _Reading] = {
    "read.split.planning-lookback": _Reading("lookback", 1, 10_000, 10),
    "read.parquet.vectorization.batch-size": _Reading("batch-size", 1, 100_000, 5_000),
    "read.orc.vectorization.batch-size": _Reading("batch-size", 1, 100_000, 5_000),
}

_TARGET = _Reading("split-size", MIB, 1 << 62, 128 * MIB)


def mend_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return read options for those properties that cannot be taken as they are."""
    mended = {}
    for name, reading in _READINGS.items():
        text = properties.get(name)
        if text is not None and text != str(value := _choose(text, reading)):
            mended[reading.option] = str(value)
    return mended


def choose_target_size(properties: Mapping[str, str]) -> int:
    """Return the compressed bytes that one task reads at most."""
    return _choose(properties.get(TARGET_SIZE, ""), _TARGET)


def _choose(text: str, reading: _Reading) -> int:
    # Digits of ASCII alone; more of them than this are beyond any limit, and slow to read.
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        return reading.default
    return min(max(int(text), reading.least), reading.most)
