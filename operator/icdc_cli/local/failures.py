"""Explain why a child process ended without an outcome of its own, by the evidence that it left.

A driver that ends in order says in its report why. This is for the others: killed by the kernel for
memory, without a JVM, ended by a person. The class decides whether the runner tries again at once,
later, or not at all, so a wrong guess costs retries and never data.

    exit  end of the log                                  class         because
    1     … java.lang.OutOfMemoryError: Java heap space   OutOfMemory   a larger heap helps
    1     Py4JNetworkError: Answer from Java side …       NodeLost      the JVM was killed
    1     [JAVA_GATEWAY_EXITED] …                         Submission    options or JDK are wrong
    -9    anything else                                   NodeLost      somebody sent SIGKILL
    -11   anything else                                   Bug           it crashed by itself

The one place where exit codes and log lines become classes of failure; a guess, but a bounded
one: never silence, never a hang. Knows nothing of how the process was started.
"""

import signal

from icdc_api import errors
from icdc_api.status.runs import Failure

MAX_SHOWN_LINES = 6
"""Lines of the log's end in a message: a Python error says its cause last."""
MAX_SHOWN_TEXT = 600
"""Characters of the log's end that go into a message."""

_TAKEN_AWAY = frozenset(
    {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT}
)
"""Signals that somebody else sends; a crash of the process's own making is not one of them, such as
SIGSEGV and SIGABRT, by which native code in Python ends itself: those are a Bug to report."""

_JVM_LOST = ("Answer from Java side is empty", "Py4JNetworkError", "connect_to_java_server")
"""What the driver's Python says when the JVM beside it has vanished."""

_JVM_NOT_STARTED = "JAVA_GATEWAY_EXITED"
"""What it says when there was never one."""

_JVM_REFUSES = ("Error", "Could not", "Unrecognized", "Invalid", "Conflicting")
"""How a JVM says what is wrong with its options, or with the memory of the host."""


def explain_exit(exit_code: int, log_tail: str, *, log: str) -> Failure:
    """Return the failure that an exit code (negative: a signal) and the log's end stand for."""
    return Failure.of(_choose_error(exit_code, log_tail, log))


def find_cause(log_tail: str, *, log: str) -> Failure | None:
    """Return the failure in the log for an error that the application could not name itself.

    A driver whose JVM has vanished sees refused connections and cannot know why.
    """
    error = _find_jvm_error(log_tail, f"the log is {log}")
    return None if error is None else Failure.of(error)


def _find_jvm_error(log_tail: str, where: str) -> errors.IcdcError | None:
    # First: a JVM without memory is lost as well, but the cause is the better answer.
    if "java.lang.OutOfMemoryError" in log_tail:
        return errors.OutOfMemory(
            f"the JVM ran out of memory; raise spec.spark.driver.memory ({where})"
        )
    if any(text in log_tail for text in _JVM_LOST):
        return errors.NodeLost(f"the JVM of the application was lost ({where})")
    if _JVM_NOT_STARTED in log_tail:
        said = "\n".join(line for line in log_tail.splitlines() if line.startswith(_JVM_REFUSES))
        return errors.Submission(
            f"the JVM did not start: {_join_last_lines(said or log_tail)} ({where})"
        )
    return None


def _choose_error(exit_code: int, log_tail: str, log: str) -> errors.IcdcError:
    where = f"the log is {log}"
    # First: the exit code of a driver that lost its JVM says nothing of the JVM.
    jvm_error = _find_jvm_error(log_tail, where)
    if jvm_error is not None:
        return jvm_error
    if -exit_code in _TAKEN_AWAY:
        # Not OutOfMemory for SIGKILL: on a host, unlike in a pod, nothing tells the OOM killer from
        # a person.
        name = signal.Signals(-exit_code).name
        return errors.NodeLost(f"the application was ended from outside by {name} ({where})")
    return errors.Bug(
        f"the application ended with code {exit_code} and reported no outcome ({where}): "
        f"{_join_last_lines(log_tail) or 'the log is empty'}"
    )


def _join_last_lines(log_tail: str) -> str:
    lines = [line.strip() for line in log_tail.splitlines() if line.strip()]
    return " | ".join(lines[-MAX_SHOWN_LINES:])[-MAX_SHOWN_TEXT:]
