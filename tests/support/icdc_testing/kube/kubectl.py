"""Runs kubectl, and writes the kubeconfigs that it is run with. Starts no server."""

import json
import os
import re
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_COMMAND_SECONDS = 120.0
_TIMEOUT = re.compile(r"--timeout=([0-9.]+)s")


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


def _sum_waits(arguments: tuple[str, ...]) -> float:
    """Return the seconds for which the command itself waits: `kubectl wait --timeout=420s`."""
    return sum(float(match[1]) for match in map(_TIMEOUT.fullmatch, arguments) if match)


@dataclass(frozen=True)
class Kubectl:
    """kubectl as one user, without anything of the person who runs the tests."""

    program: Path
    kubeconfig: Path
    cache: Path

    def run(self, *arguments: str, stdin: str = "") -> Ran:
        """Run to the end, whichever it is."""
        done = subprocess.run(
            [
                *(str(self.program), "--kubeconfig", str(self.kubeconfig)),
                *("--cache-dir", str(self.cache), *arguments),
            ],
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={**os.environ, "KUBERC": "off"},
            timeout=_COMMAND_SECONDS + _sum_waits(arguments),
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def run_ok(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl and return its output; AssertionError with its stderr if it fails."""
        ran = self.run(*arguments, stdin=stdin)
        assert ran.code == 0, f"kubectl {' '.join(arguments)}: {ran.err}"
        return ran.out

    def read_object(self, *arguments: str, stdin: str = "") -> dict[str, Any]:
        """Return the object or list that it printed."""
        parsed: dict[str, Any] = json.loads(self.run_ok(*arguments, "-o", "json", stdin=stdin))
        return parsed


@contextmanager
def create_namespace(kubectl: Kubectl) -> Iterator[str]:
    """Create a namespace; its end deletes it and does not wait until it is gone."""
    name = f"icdc-{secrets.token_hex(4)}"
    kubectl.run_ok("create", "namespace", name)
    try:
        yield name
    finally:
        kubectl.run_ok("delete", "namespace", name, "--wait=false", "--ignore-not-found")


def write_kubeconfig(path: Path, cluster: dict[str, Any], token: str, namespace: str) -> Path:
    """Write a kubeconfig of one user; `cluster` is an entry as kubeconfigs have it."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": cluster}],
        "users": [{"name": "tests", "user": {"token": token}}],
        "contexts": [
            {
                "name": "tests",
                "context": {"cluster": "tests", "user": "tests", "namespace": namespace},
            }
        ],
        "current-context": "tests",
    }
    return write_private(path, json.dumps(config))


def write_private(path: Path, text: str) -> Path:
    """Write a file with a secret, which nobody else may read."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return path
