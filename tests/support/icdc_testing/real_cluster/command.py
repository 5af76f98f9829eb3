"""The command `python -m icdc_testing.real_cluster.command up|down|load|…|status|run -- COMMAND`.

`run` is what CI uses: it takes the cluster down whatever happens, and ends as the command ended.
ICDC_TEST_KUBECONFIG names another cluster, which is used as it is, and never taken down.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from icdc_api.errors import BadSpec, IcdcError
from icdc_testing.kube.api_server import GIVEN
from icdc_testing.kube.server_process import end_with_parent
from icdc_testing.real_cluster import lifecycle, second_node
from icdc_testing.real_cluster.host import layout, programs, teardown
from icdc_testing.real_cluster.host.layout import ClusterPaths
from icdc_testing.real_cluster.host.programs import Starter
from icdc_testing.real_cluster.node import images
from icdc_testing.real_cluster.services import spark_operator
from icdc_testing.real_cluster.used import CLUSTER

_END_SECONDS = 60.0  # for a command that is interrupted


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments say; return the command's exit code, or 1 with a sentence about what
    went wrong."""
    options = _build_parser().parse_args(argv)
    where = ClusterPaths.find_usual()
    # So that a cluster is taken down when CI gives up.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _run(options, where)
    except IcdcError as exc:
        sys.stderr.write(f"error: {exc.message}\n")
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
    return 1


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="icdc_testing.real_cluster.command", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="bring a cluster up that stays")
    verbs.add_parser("down", help="take it down, also after a crash")
    verbs.add_parser("status", help="say what runs; 1 where nothing does")
    run = verbs.add_parser("run", help="bring one up, run a command, take it down")
    for command in (up, run):
        command.add_argument("--images", type=Path, metavar="FOLDER", help="load each *.tar in it")
    load = verbs.add_parser("load", help="load images into the cluster that is up")
    load.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE")
    verbs.add_parser("restart", help="kill spark-operator, and start it again")
    attach = verbs.add_parser("attach-node", help="add a second node to the cluster that is up")
    attach.add_argument("images", nargs="*", metavar="IMAGE", help="of the first node's, by name")
    verbs.add_parser("detach-node", help="take it away, also after a crash")
    run.add_argument("command", nargs="+", metavar="COMMAND", help="after --")
    return parser


def _run(options: argparse.Namespace, where: ClusterPaths) -> int:
    if options.verb == "status":
        return _print_status(where)
    if options.verb in _PARTS:
        # Whoever brought the cluster up may hold it meanwhile: this is for tests on it.
        _PARTS[options.verb](options, where)
        return 0
    given = os.environ.get(GIVEN)
    if options.verb == "run" and given:
        return _call(options.command, {CLUSTER: str(Path(given).expanduser().absolute())})
    with lifecycle.hold_cluster_lock(where):
        if options.verb == "down":
            teardown.take_down(where)
        elif options.verb == "up":
            lifecycle.bring_up(where, stays=True, archives=_find_archives(options))
            sys.stdout.write(f"export {CLUSTER}={where.kubeconfig}\n")
        elif options.verb == "load":
            for archive in options.archives:
                sys.stdout.write("\n".join(images.load(where.locate(layout.FIRST), archive)) + "\n")
        else:
            return _run_in_new(options, where)
    return 0


def _restart(_: argparse.Namespace, where: ClusterPaths) -> None:
    spark_operator.stop(where)
    spark_operator.start(Starter(where, stays=True))


def _attach(options: argparse.Namespace, where: ClusterPaths) -> None:
    second_node.attach(Starter(where, stays=True), options.images)


_PARTS: Mapping[str, Callable[[argparse.Namespace, ClusterPaths], None]] = {
    "restart": _restart,
    "attach-node": _attach,
    "detach-node": lambda _, where: second_node.detach(where),
}
"""Verbs that change a part of a cluster that is up."""


def _run_in_new(options: argparse.Namespace, where: ClusterPaths) -> int:
    lifecycle.bring_up(where, stays=False, archives=_find_archives(options))
    try:
        return _call(options.command, {CLUSTER: str(where.kubeconfig)})
    finally:
        teardown.take_down(where)
        teardown.remove_images(where)


def _find_archives(options: argparse.Namespace) -> list[Path]:
    folder: Path | None = options.images
    if folder is None:
        return []
    archives = sorted(folder.glob("*.tar"))
    if not archives:
        raise BadSpec(f"There is no image archive (*.tar) in {folder}.")
    return archives


def _call(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run it to its end; when we are interrupted, it is, and all that it has started."""
    with subprocess.Popen(
        # It must not go on without its cluster, not even when we are killed.
        [*end_with_parent("TERM"), *command],
        env={**os.environ, **environment},
        start_new_session=True,
    ) as process:
        try:
            return process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise


def _print_status(where: ClusterPaths) -> int:
    if not where.facts.exists():
        sys.stdout.write("no cluster is up\n")
        return 1
    for name, pid in programs.read_record(where).items():
        sys.stdout.write(f"{name}: {pid}\n")
    sys.stdout.write(where.facts.read_text(encoding="utf-8") + "\n")
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
