"""Measures the memory of a Python worker that writes, in a process of its own: this very file."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from icdc_testing.target import sink_cases as sink

ROW_BYTES = 8_000
BATCH_ROWS = 1_000


def measure_peak(url: str, rows: int, max_bytes: int, max_in_flight: int) -> int:
    """Write `rows` rows as one task does; return the bytes that the process came to hold for it.

    They are those of the resident set at its peak, beyond what the process had before.
    """
    arguments = [str(number) for number in (rows, max_bytes, max_in_flight)]
    done = subprocess.run(
        [sys.executable, __file__, url, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def _write(url: str, rows: int, max_bytes: int, max_in_flight: int) -> int:
    before = _read_peak()
    aim = sink.make_target(url, max_bytes=max_bytes, max_in_flight=max_in_flight)
    result = sink.run_task(_make_batches(rows), aim)
    assert result.error is None, result.error
    assert result.upserted + result.already_applied == rows
    return _read_peak() - before


def _read_peak() -> int:
    # Not `getrusage`, in whose peak is that of the process that started this one.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _make_batches(rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, BATCH_ROWS):
        numbers = range(start, min(start + BATCH_ROWS, rows))
        lines = [sink.upsert(f"k{number}", {"s": "x" * ROW_BYTES}) for number in numbers]
        yield from sink.make_batches(lines)


if __name__ == "__main__":
    sys.stdout.write(str(_write(sys.argv[1], *map(int, sys.argv[2:]))))
