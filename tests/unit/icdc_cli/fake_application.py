"""Stands in place of the Spark application: does what the pipeline's annotation `fake` says.

Run as a script with the path of a request, like the real one; writes reports as plain JSON, so
that the form of the files is tested and not only their code.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

REQUEST = json.loads(Path(sys.argv[1]).read_text())
STARTED = datetime.now(UTC).isoformat()


def make_tables(state: str, **more: Any) -> list[dict[str, Any]]:
    return [
        {"name": table["name"], "index": "shop.orders", "state": state, **more}
        for table in REQUEST["pipeline"]["spec"]["tables"]
    ]


def write_report(*, finished: bool, **more: Any) -> None:
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


def succeed() -> None:
    done = make_tables("Streaming", lagSeconds=0, rowsUpserted=3, export={"rows": 3}, **CAUGHT_UP)
    result = {"tables": [{"name": "shop.orders", "index": "shop.orders", "equal": True}]}
    write_report(finished=True, tables=done, result=result)


def find_differences() -> None:
    missing = {"count": 2, "samples": ["1", "2"]}
    table = {"name": "shop.orders", "index": "shop.orders", "equal": False, "missing": missing}
    write_report(finished=True, result={"tables": [table]})


def answer_dead_letters() -> None:
    if REQUEST["mode"] == "replay":
        left = 2 if REQUEST.get("ids") is None else 0
        write_report(
            finished=True, result={"tables": [{"name": "shop.orders", "resent": 3, "left": left}]}
        )
        return
    letter = {"id": "7", "errorType": "mapper_parsing_exception", "reason": "no number"}
    table = {"name": "shop.orders", "index": "o", "letters": [letter], "message": "5 more"}
    write_report(finished=True, result={"tables": [table]})


def differ_at_verify() -> None:
    """Follow well, and finds that the index is another."""
    (find_differences if REQUEST["mode"] == "verify" else succeed)()


def fail_to_connect() -> None:
    write_report(finished=True, outcome=UNREACHABLE)


def lose_jvm() -> None:
    sys.stderr.write("  File clientserver.py, line 438, in connect_to_java_server\n")
    bug = {"class": "Bug", "reason": "Bug", "message": "refused", "retryable": False}
    write_report(
        finished=True, outcome={**bug, "whoActs": "the maintainers of iceberg-cdc-operator"}
    )


def exhaust_jvm_heap() -> None:
    """End as where the JVM ran out of memory: its Python saw only that it was gone."""
    sys.stderr.write("java.lang.OutOfMemoryError: Java heap space\n")
    lost = {"class": "NodeLost", "reason": "DriverLost", "message": "gone", "retryable": True}
    write_report(finished=True, outcome={**lost, "whoActs": "nobody: it is retried"})


def start_no_jvm() -> None:
    """End as where the host has not the memory that the spec asks for."""
    sys.stderr.write("Error occurred during initialization of VM\n")
    sys.stderr.write("Could not reserve enough space for 1048574951424KB object heap\n")
    sys.stderr.write("PySparkRuntimeError: [JAVA_GATEWAY_EXITED] Java gateway process exited\n")
    refused = {"class": "Submission", "reason": "Submission", "message": "no", "retryable": False}
    write_report(finished=True, outcome={**refused, "whoActs": "the platform engineer"})


def fail_to_connect_once() -> None:
    if REQUEST["runId"].split(".")[0].endswith("-1"):
        fail_to_connect()
    else:
        succeed()


def respect_fence(epoch: int) -> None:
    """Is fenced by a run of that epoch, unless its own is higher."""
    if REQUEST["epoch"] > epoch:
        succeed()
        return
    outcome = {
        **UNREACHABLE,
        "class": "Fenced",
        "reason": "Fenced",
        "message": f"owned by epoch {epoch}",
        "rival": {"epoch": epoch, "runId": "elsewhere"},
    }
    write_report(finished=True, outcome=outcome)


def respect_future_fence() -> None:
    respect_fence(4_070_908_800_000)


def respect_fence_of_live_run() -> None:
    """By one that began after this one; who asks again would fence it in turn, and win."""
    asked = Path("asked")
    if asked.exists():
        succeed()
    else:
        asked.touch()
        respect_fence(REQUEST["epoch"] + 1)


def stall() -> None:
    write_report(
        finished=True, tables=make_tables("Stalled", reason="AliasTaken", message="it is taken")
    )


def sigkill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sigkill_once() -> None:
    if REQUEST["runId"].split(".")[0].endswith("-1"):
        sigkill()
    succeed()


def exhaust_memory() -> None:
    sys.stderr.write("java.lang.OutOfMemoryError: Java heap space\n")
    raise SystemExit(52)


def crash() -> None:
    sys.stderr.write("Traceback (most recent call last):\n")
    raise SystemExit("ValueError: nobody foresaw this")


def garble_report() -> None:
    Path(REQUEST["reportPath"]).write_text('{"runId": 1}')


def end_when_asked() -> None:
    def end(_number: int, _frame: FrameType | None) -> None:
        succeed()
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)
    write_report(finished=False, tables=make_tables("Streaming", **CAUGHT_UP))
    while True:
        signal.pause()


def ignore_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    write_report(finished=False)
    while True:
        signal.pause()


def remove_state_dir() -> None:
    """End as somebody cleans up who does not know that the directory is used."""
    shutil.rmtree(Path(REQUEST["reportPath"]).parents[2])


def wait_for_end_of_stdin() -> None:
    write_report(finished=False)
    sys.stdin.read()
    write_report(finished=True)


def need_own_spark() -> None:
    """Fail if a variable that belongs to another Spark of the host would change this one."""
    own = {"PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS", "SPARK_LOCAL_IP", "SPARK_SUBMIT_OPTS"}
    foreign = {name for name in os.environ if name.startswith(("SPARK_", "PYSPARK_"))} - own
    assert not foreign, foreign
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dmine=1"
    succeed()


def start_worker() -> None:
    """Start a module that imports `queue`, as Spark starts its Python workers."""
    subprocess.run([sys.executable, "-m", "concurrent.futures.thread"], check=True)
    succeed()


def leave_worker() -> None:
    """Leave a worker in a process group of its own behind, as Spark's Python daemon does."""
    subprocess.Popen(["sleep", "600"], process_group=0)
    write_report(finished=False)
    sigkill()


if __name__ == "__main__":
    globals()[REQUEST["pipeline"]["metadata"]["annotations"]["fake"]]()
