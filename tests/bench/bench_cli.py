"""What `icdc status` installs, and how long it takes, beside kubectl. `make bench-cli`.

Prints one JSON object, or with `--table` Markdown. The package is installed with its extra `cli`
into an environment of its own, in the versions of the lock; its size is what this added there.
Then each program answers in turn for one pipeline of a real API server on loopback:

    program                what it is here
    icdc status            the extra `cli`
    kubectl get            the peer: one static binary, the same request and the same table
    an empty Python        the floor of `icdc`: starts and ends

Code 1 where the installation or the median answer is larger than it may be. The first round is not
counted: it fills the caches of files.
"""

import argparse
import os
import re
import statistics
import subprocess
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from icdc_api.crd import generator
from icdc_testing.bench.machine import describe_machine, print_runs
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.stored_pipelines import Pipelines, make_minimal

ROOT = Path(__file__).parents[2]
ICDC = "icdc status"
MAX_MEGABYTES = 60.0
"""Of 10^6 bytes, Python itself not counted."""
MAX_SECONDS = 0.4
_SECONDS = 300.0
"""For one call of pip or of a measured program: a bound for what hangs."""

Commands = Mapping[str, Sequence[str | Path]]


def main() -> int:
    """Measure and print; 1 where `icdc` is larger or slower than it may be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--table", action="store_true", help="print Markdown")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="icdc-bench-")))
        megabytes = _install(folder / "venv", folder / "constraints.txt")
        kube = stack.enter_context(KubeApi(crds=[generator.COMMITTED]))
        pipelines = Pipelines(kube.kubectl, stack.enter_context(kube.create_namespace()))
        pipelines.apply(make_minimal("shop"))
        commands = _list_commands(folder / "venv", pipelines)
        environ = {**os.environ, "KUBECONFIG": str(kube.kubeconfig)}
        runs = _measure(commands, environ, options.rounds)
    result = {
        "installed_mb": round(megabytes, 1),
        **describe_machine("pydantic", "urllib3"),
        "runs": runs,
    }
    print_runs(result, as_table=options.table)
    slow = next(run for run in runs if run["program"] == ICDC)["seconds"] > MAX_SECONDS
    return 1 if slow or megabytes > MAX_MEGABYTES else 0


def _install(environment: Path, constraints: Path) -> float:
    """Install the extra `cli` into a new environment; return the megabytes that it takes."""
    venv.create(environment, with_pip=True)
    before = _count_bytes(environment)
    pinned = re.findall(r"^[\w.\[\]-]+==[^ \\]+", (ROOT / "tools/locks/all.lock").read_text(), re.M)
    constraints.write_text("\n".join(pinned) + "\n")
    package = f"iceberg-cdc-operator[cli] @ {ROOT.as_uri()}"
    install = ("-m", "pip", "install", "--quiet", "-c", str(constraints), package)
    subprocess.run([environment / "bin/python", *install], check=True, timeout=_SECONDS)
    return (_count_bytes(environment) - before) / 1e6


def _count_bytes(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())


def _list_commands(environment: Path, pipelines: Pipelines) -> Commands:
    name, namespace = "shop", ("--namespace", pipelines.namespace)
    return {
        ICDC: [environment / "bin/icdc", "status", name, *namespace],
        "kubectl get": [pipelines.kubectl.program, "get", "icdc", name, *namespace],
        "an empty Python": [environment / "bin/python", "-c", ""],
    }


def _measure(commands: Commands, environ: Mapping[str, str], rounds: int) -> list[dict[str, Any]]:
    """Run the commands in turn; return the medians of seconds of the clock and of processors."""
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(1 + rounds):
        for name, command in commands.items():
            measured[name].append(_run(command, environ))
    return [
        {
            "program": name,
            "seconds": round(statistics.median(seconds for seconds, _ in runs[1:]), 2),
            "cpu_seconds": round(statistics.median(cpu for _, cpu in runs[1:]), 2),
        }
        for name, runs in measured.items()
    ]


def _run(command: Sequence[str | Path], environ: Mapping[str, str]) -> tuple[float, float]:
    """Return the seconds of the clock and of processors of one run, which must answer."""
    since, spent = time.monotonic(), os.times()
    ended = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    seconds, now = time.monotonic() - since, os.times()
    # `icdc status` ends with another code than 0 for a pipeline that no operator looks after.
    assert "status" not in command or "shop" in ended.stdout, ended.stderr
    cpu = now.children_user + now.children_system - spent.children_user - spent.children_system
    return seconds, cpu


if __name__ == "__main__":
    raise SystemExit(main())
