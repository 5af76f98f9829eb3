"""Stands in place of the Spark application: does what the pipeline's annotation `fake` says.

Run as a script with the path of a request, like the real one; writes reports as plain JSON, so
that the form of the files is tested and not only their code.
"""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

REQUEST = json.loads(Path(sys.argv[1]).read_text())
STARTED = datetime.now(UTC).isoformat()


def tables(state: str, **more: Any) -> list[dict[str, Any]]:
    return [
        {"name": table["name"], "index": "shop.orders", "state": state, **more}
        for table in REQUEST["pipeline"]["spec"]["tables"]
    ]


def report(*, finished: bool, **more: Any) -> None:
    path = Path(REQUEST["reportPath"])
    value = {
        "runId": REQUEST["runId"],
        "startedAt": STARTED,
        "updatedAt": datetime.now(UTC).isoformat(),
        "finished": finished,
        **more,
    }
    scratch = path.with_suffix(".tmp")
    scratch.write_text(json.dumps(value))
    scratch.replace(path)


CAUGHT_UP = {"appliedSnapshotId": "7", "currentSnapshotId": "7", "snapshotsBehind": 0}
UNREACHABLE = {
    "class": "TargetUnavailable",
    "reason": "TargetUnavailable",
    "message": "http://127.0.0.1:1 refuses connections",
    "retryable": True,
    "whoActs": "nobody: it is retried",
}


def success() -> None:
    done = tables("Streaming", lagSeconds=0, rowsUpserted=3, export={"rows": 3}, **CAUGHT_UP)
    result = {"tables": [{"name": "shop.orders", "index": "shop.orders", "equal": True}]}
    report(finished=True, tables=done, result=result)


def different() -> None:
    missing = {"count": 2, "samples": ["1", "2"]}
    table = {"name": "shop.orders", "index": "shop.orders", "equal": False, "missing": missing}
    report(finished=True, result={"tables": [table]})


def dead_letters() -> None:
    if REQUEST["mode"] == "replay":
        left = 2 if REQUEST.get("ids") is None else 0
        report(
            finished=True, result={"tables": [{"name": "shop.orders", "resent": 3, "left": left}]}
        )
        return
    letter = {"id": "7", "errorType": "mapper_parsing_exception", "reason": "no number"}
    table = {"name": "shop.orders", "index": "o", "letters": [letter], "message": "5 more"}
    report(finished=True, result={"tables": [table]})


def other() -> None:
    """Follow well, and finds that the index is another."""
    (different if REQUEST["mode"] == "verify" else success)()


def unreachable() -> None:
    report(finished=True, outcome=UNREACHABLE)


def jvm_lost() -> None:
    sys.stderr.write("  File clientserver.py, line 438, in connect_to_java_server\n")
    bug = {"class": "Bug", "reason": "Bug", "message": "refused", "retryable": False}
    report(finished=True, outcome={**bug, "whoActs": "the maintainers of iceberg-cdc-operator"})


def jvm_heap() -> None:
    """End as where the JVM ran out of memory: its Python saw only that it was gone."""
    sys.stderr.write("java.lang.OutOfMemoryError: Java heap space\n")
    lost = {"class": "NodeLost", "reason": "DriverLost", "message": "gone", "retryable": True}
    report(finished=True, outcome={**lost, "whoActs": "nobody: it is retried"})


def flaky() -> None:
    if REQUEST["runId"].split(".")[0].endswith("-1"):
        unreachable()
    else:
        success()


def fenced(epoch: int) -> None:
    """Is fenced by a run of that epoch, unless its own is higher."""
    if REQUEST["epoch"] > epoch:
        success()
        return
    outcome = {
        **UNREACHABLE,
        "class": "Fenced",
        "reason": "Fenced",
        "message": f"owned by epoch {epoch}",
        "rival": {"epoch": epoch, "runId": "elsewhere"},
    }
    report(finished=True, outcome=outcome)


def fenced_by_the_future() -> None:
    fenced(4_070_908_800_000)


def fenced_by_a_live_run() -> None:
    """By one that began after this one; who asks again would fence it in turn, and win."""
    asked = Path("asked")
    if asked.exists():
        success()
    else:
        asked.touch()
        fenced(REQUEST["epoch"] + 1)


def stalled() -> None:
    report(finished=True, tables=tables("Stalled", reason="AliasTaken", message="it is taken"))


def sigkill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sigkill_once() -> None:
    if REQUEST["runId"].split(".")[0].endswith("-1"):
        sigkill()
    success()


def out_of_memory() -> None:
    sys.stderr.write("java.lang.OutOfMemoryError: Java heap space\n")
    raise SystemExit(52)


def crash() -> None:
    sys.stderr.write("Traceback (most recent call last):\n")
    raise SystemExit("ValueError: nobody foresaw this")


def garbled() -> None:
    Path(REQUEST["reportPath"]).write_text('{"runId": 1}')


def polite() -> None:
    def end(_number: int, _frame: FrameType | None) -> None:
        success()
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)
    report(finished=False, tables=tables("Streaming", **CAUGHT_UP))
    while True:
        signal.pause()


def deaf() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    report(finished=False)
    while True:
        signal.pause()


def until_stdin_ends() -> None:
    report(finished=False)
    sys.stdin.read()
    report(finished=True)


def with_worker() -> None:
    """Leave a worker in a process group of its own behind, as Spark's Python daemon does."""
    subprocess.Popen(["sleep", "600"], process_group=0)
    report(finished=False)
    sigkill()


if __name__ == "__main__":
    globals()[REQUEST["pipeline"]["metadata"]["annotations"]["fake"]]()
