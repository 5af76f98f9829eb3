"""How processor time of processes is added up."""

import subprocess
import sys

import pytest

from icdc_testing.bench.spending import ProcessorLedger

pytestmark = pytest.mark.unit

# As the daemon of Spark's Python workers: the time of an ended child is not added to its own.
# The child works for longer than is asserted: /proc counts user and system time in whole ticks,
# each rounded down.
PARENT = """
import os, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
child = os.fork()
if not child:
    while time.process_time() < 0.4:
        pass
    print("worked", flush=True)
    sys.stdin.readline()
    os._exit(0)
try:
    os.wait()
except ChildProcessError:
    pass
print("ended", flush=True)
sys.stdin.readline()
"""


def test_what_an_ended_worker_has_used_still_counts() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        ledger = ProcessorLedger(parent.pid)
        assert parent.stdout.readline() == "worked\n"
        worked, python = ledger.read()
        assert worked >= 0.3
        assert python == worked
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == "ended\n"
        assert ledger.read()[0] >= worked
        # One that begins now cannot know of it.
        assert ProcessorLedger(parent.pid).read()[0] < 0.3
