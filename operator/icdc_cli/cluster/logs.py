"""`icdc logs`: what the driver of a pipeline's run prints, which is the log of the run.

`kubectl logs` needs the name of a pod, which each attempt has anew. Here the pipeline's name does:
its status names the current run, and labels of the pods say which run and pipeline they are of.

    asked for          pods of drivers           shown
    nothing            p-c7-1 (current), p-c6-1  p-c7-1
    nothing            p-c6-1, p-e5-2; no run    p-c6-1, the youngest
    --run p-e5-2       p-c6-1, p-e5-2            p-e5-2
    nothing            p-c6-1; p-c7-1 planned    nothing: "p-c7-1 has no driver yet", code 3

Never another run than the one asked about: its errors would be taken for those of the present one.
"""

import argparse
import io
import os
import sys
from datetime import UTC, datetime
from typing import Any

from icdc_api import naming
from icdc_api.errors import BadSpec
from icdc_api.job import log_lines
from icdc_cli import options, terminal
from icdc_cli.cluster import session
from icdc_cli.cluster.session import Target
from icdc_cli.exits import Exit
from icdc_operator.cluster.kube import api_errors
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import pod_failures
from icdc_operator.manifests.pods.roles import Role

TAIL_LINES = 1000
"""Lines shown at first. A continuous run logs for weeks, and the API server would send it all."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "logs",
        help="show the log of a pipeline's run in a cluster",
        description="Shows the log of the driver of the current run, or of the newest retained run "
        "if none is active, as text with times in UTC. Exit code 3 when there is no log yet.",
    )
    session.add_target(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="continue until the run ends")
    parser.add_argument("--run", metavar="RUN", help="of this run (default: the current or newest)")
    parser.add_argument(
        "--tail",
        type=options.build_number_type(0),
        default=TAIL_LINES,
        metavar="LINES",
        help=f"begin with the last lines (default: {TAIL_LINES})",
    )
    parser.add_argument(
        "--raw", action="store_true", help="show lines as they are in the pod, such as JSON"
    )
    options.add_verbose(parser)
    parser.set_defaults(command=session.carry_out(_show_logs))


async def _show_logs(target: Target, arguments: argparse.Namespace) -> Exit:
    pipeline = await target.read_pipeline()
    drivers = await target.api.list_driver_pods(target.namespace, target.name)
    current = _get_current_run(pipeline)
    pod = _find_driver(drivers, arguments.run) if arguments.run else _find_newest(drivers, current)
    if pod is None:
        none = "no run that has a log is retained"
        return _report_no_log(none if current is None else f"{current} has no driver yet")
    waits_for = _explain_wait(pod)
    if waits_for is not None:
        return _report_no_log(waits_for)
    try:
        await _show(target, pod["metadata"]["name"], arguments)
    # The answer of the API server for a pod without a started container is 400.
    except api_errors.Invalid as error:
        # Its container has just not started; the message says what it waits for.
        return _report_no_log(error.message)
    except api_errors.NotFound:
        return _report_no_log(f"the driver {pod['metadata']['name']} no longer exists")
    except BrokenPipeError:
        # Whoever reads has had enough; Python must not complain of that at its end.
        # As in the notes on SIGPIPE of Python's `signal` module: its last flush would raise anew.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.DONE


async def _show(target: Target, pod: str, arguments: argparse.Namespace) -> None:
    where = (target.namespace, pod, arguments.tail)
    # By its name: a pod with a sidecar of the cluster's has more than one container, and the API
    # server refuses to choose.
    container = Role.DRIVER.container
    form = str if arguments.raw else log_lines.format_for_people
    if not arguments.follow:
        log = await target.api.read_log(*where, container=container)
        # Not `splitlines`, which also ends lines at characters that a message may have.
        sys.stdout.writelines(terminal.make_printable(form(line)) for line in io.StringIO(log))
        sys.stdout.flush()
        return
    # Line by line and flushed: `| grep` shows a line when it is printed, not 8 KiB later.
    async for line in target.api.follow_log(*where, container=container):
        sys.stdout.write(terminal.make_printable(form(line)))
        sys.stdout.flush()


def _find_driver(drivers: list[Resource], run: str) -> Resource:
    """Return the newest driver of a run; BadSpec, with the runs that have one, if it has none."""
    pods_of_run = [pod for pod in drivers if _get_run(pod) == run]
    if not pods_of_run:
        runs_left = ", ".join(sorted(filter(None, map(_get_run, drivers)))) or "none"
        raise BadSpec(f"--run {run}: its driver no longer exists; runs with a driver: {runs_left}")
    return sort_by_age(pods_of_run)[-1]


def _find_newest(drivers: list[Resource], run: str | None) -> Resource | None:
    """Return the driver of the current run, or the newest of all when no run is active."""
    candidates = drivers if run is None else [pod for pod in drivers if _get_run(pod) == run]
    return sort_by_age(candidates)[-1] if candidates else None


# Times of Kubernetes are in UTC and of one width, so their texts sort as they do. By time and not
# by name, in which run 10 stands before run 9.
def sort_by_age(drivers: list[Resource]) -> list[Resource]:
    """Return the pods, the oldest first."""
    return sorted(drivers, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")))


def _explain_wait(pod: Resource) -> str | None:
    """Return why the driver prints nothing yet; None once it has begun.

    Of a pod that has no node yet the API server gives an empty log, and not an error.
    """
    if (pod.get("status") or {}).get("phase") != "Pending":
        return None
    failure = pod_failures.explain_not_running(pod, datetime.now(UTC))
    name = pod["metadata"]["name"]
    return failure.message if failure else f"the driver {name} has not started yet"


def _get_run(pod: Resource) -> str | None:
    labels: dict[str, str] = pod["metadata"].get("labels") or {}
    return labels.get(naming.LABEL_RUN)


def _get_current_run(pipeline: Resource) -> str | None:
    run: Any = (pipeline.get("status") or {}).get("currentRun") or {}
    name = run.get("name")
    return name if isinstance(name, str) else None


def _report_no_log(why: str) -> Exit:
    """Write why there is no log; return exit code 3, since a later call may show one."""
    terminal.complain(why)
    return Exit.OUTLASTED
