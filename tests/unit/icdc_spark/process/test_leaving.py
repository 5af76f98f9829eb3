"""A driver ends when its run has, whatever threads of libraries do."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit

_SECONDS = 60
PROGRAM = """
import threading
from icdc_spark.process.main import leave

threading.Thread(target=threading.Event().wait).start()
print("said", end="")
leave(3)
"""


def test_a_thread_that_never_ends_keeps_no_driver() -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert (done.returncode, done.stdout) == (3, "said")
