"""SIGTERM as Ctrl-C, for commands that only wait for an answer.

By default it ends Python at once, without any `finally`: a request with credentials would stay on
disk. `icdc run` takes signals as requests to stop instead, see there.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM came. Whoever cleans up after Ctrl-C does so after this."""


@contextlib.contextmanager
def raise_on_sigterm() -> Iterator[None]:
    """Let SIGTERM raise Terminated within the context; in the main thread, which alone gets it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        # A second one would interrupt the cleaning up; SIGKILL ends that too.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
