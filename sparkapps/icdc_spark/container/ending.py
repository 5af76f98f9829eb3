"""Lets the driver's JVM end in order when the driver's Python has.

A container ends with its first process, and with it everything that still runs: scratch files
would stay behind on the node, which the JVM removes in its last moments.
"""

import logging
import subprocess

from pyspark import SparkContext

LOG = logging.getLogger(__name__)

JVM_SECONDS = 20.0
"""Seconds for which the JVM is waited for: its ordinary end takes less than one."""


def wait_for_jvm() -> None:
    """Wait for the JVM that pyspark started, if it did; never raises."""
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        wait_for(process, JVM_SECONDS)


def wait_for(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    """Let a process end that ends with its standard input; give up after so many seconds."""
    try:
        # The JVM of pyspark ends when its standard input does.
        if process.stdin is not None:
            process.stdin.close()
        process.wait(seconds)
    except (OSError, subprocess.TimeoutExpired) as error:
        LOG.warning("the JVM did not end in order: %s", error)
