"""`icdc-operator` as a process of its own, started, asked over HTTP and ended by tests."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from icdc_testing.lake.catalogs.readers import ON_LOOPBACK
from icdc_testing.waiting import wait

IMAGE = "iceberg-cdc-operator-spark:test"
_END_SECONDS = 120.0


class OperatorProcess:
    """One process; what it logs goes to a file. Use `run_operator`."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def log(self) -> list[dict[str, Any]]:
        """The lines that it has logged; those that are no JSON have only a message."""
        lines = self._log.read_text(encoding="utf-8").splitlines()
        return [_parse(line) for line in lines]

    @property
    def messages(self) -> list[str]:
        """Return the messages of the log lines."""
        return [str(line["message"]) for line in self.log]

    def wait_for_log(self, text: str) -> None:
        """Wait until it has logged something with `text` in it."""
        self.wait_until(
            lambda: any(text in message for message in self.messages), f"it logs {text!r}"
        )

    def wait_until(self, reached: Any, what: str, *, seconds: float = wait.WAIT_SECONDS) -> None:
        """Wait; an AssertionError shows the log."""
        try:
            wait.wait_until(
                lambda: self._process.poll() is not None or reached(), what, seconds=seconds
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._read_tail()}") from error
        assert self._process.poll() is None or reached(), f"it has ended\n{self._read_tail()}"

    @property
    def pid(self) -> int:
        """Return the id of the process."""
        return self._process.pid

    def ask(self, server: str, path: str) -> tuple[int, str]:
        """Return status and body of an answer of the server `health` or `metrics`."""
        start = f"{server} on port "
        self.wait_for_log(start)
        (message,) = [message for message in self.messages if message.startswith(start)]
        connection = http.client.HTTPConnection("127.0.0.1", int(message.removeprefix(start)))
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def read_metric(self, sample: str) -> float:
        """Return the value of a metric with its labels as the text format has them; 0 if it is
        not."""
        _, text = self.ask("metrics", "/metrics")
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            if name == sample:
                return float(value)
        return 0.0

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it; return its exit code."""
        self.send(number)
        return self._process.wait(_END_SECONDS)

    @property
    def ended(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def close(self) -> None:
        """Make sure that it has ended."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(_END_SECONDS)

    def _read_tail(self) -> str:
        return "\n".join(self._log.read_text(encoding="utf-8").splitlines()[-30:])


@contextmanager
def run_operator(
    kubeconfig: Path, folder: Path, name: str, arguments: Sequence[str]
) -> Iterator[OperatorProcess]:
    """Run an operator on free ports; it is killed at the end if it still runs."""
    log = folder / f"{name}.log"
    ports = ["--metrics-port", "0", "--health-port", "0"]
    # Catalogs of tests are on this host.
    flags = ["--image", IMAGE, *ports, *ON_LOOPBACK.flags, *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "icdc_operator.cluster.main", *flags],
            stderr=out,
            stdout=out,
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        )
    operator = OperatorProcess(process, log)
    try:
        yield operator
    finally:
        operator.close()


def _parse(line: str) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except ValueError:
        return {"message": line}
    return fields if isinstance(fields, dict) else {"message": line}
