"""The quick start on a cluster, for a person who wants to see it: `make cluster-demo`.

The page is walked as its reader would, and what it shows is printed. The cluster is made for it, or
the one that ICDC_TEST_CLUSTER or ICDC_TEST_KUBECONFIG names. Knows no test.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from icdc_api.errors import IcdcError
from icdc_testing.kube.api_server import GIVEN
from icdc_testing.real_cluster import command, used
from icdc_testing.real_cluster.host.layout import ClusterPaths
from icdc_testing.real_cluster.quick_start import NAME, NAMESPACE, PageStep, Printed, QuickStart
from icdc_testing.real_cluster.used import CLUSTER, UsedCluster
from icdc_testing.waiting import wait


def main(argv: Sequence[str] | None = None) -> int:
    """Walk the page; return 0 at its end, else 1 with a sentence about what went wrong."""
    options = _build_parser().parse_args(argv)
    given = os.environ.get(CLUSTER) or os.environ.get(GIVEN)
    if not given and not options.keep:
        # It takes down what it brought up, whatever happens in between.
        again = [sys.executable, "-m", "icdc_testing.real_cluster.demo"]
        return command.main(["run", *_build_image_flags(options), "--", *again])
    if not given:
        code = command.main(["up", *_build_image_flags(options)])
        if code != 0:
            return code
    os.environ[CLUSTER] = given or str(ClusterPaths.find_usual().kubeconfig)
    try:
        _play(options, down="" if given else "make cluster-down")
        return 0
    except (AssertionError, IcdcError) as exc:
        sys.stderr.write(f"error: {exc}\n")
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
    return 1


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cluster-demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave all of it to look at")
    parser.add_argument(
        "--images", type=Path, metavar="FOLDER", help="for a new cluster: load each *.tar in it"
    )
    return parser


def _build_image_flags(options: argparse.Namespace) -> list[str]:
    return [] if options.images is None else ["--images", str(options.images)]


def _play(options: argparse.Namespace, *, down: str) -> None:
    with used.open_cluster() as cluster, tempfile.TemporaryDirectory(prefix="icdc-demo-") as folder:
        walk = QuickStart(cluster, Path(folder))
        walk.clean()
        if options.keep:
            show_steps(walk, walk.steps[:-1])
            _print_farewell(cluster, down)
            return
        try:
            show_steps(walk, walk.steps)
            wait.wait_until(walk.is_removed, "nothing is left")
        finally:
            walk.clean()


def show_steps(walk: QuickStart, steps: Sequence[PageStep]) -> list[Printed]:
    """Take the steps, say how long each took, and print and return what the page shows."""
    shown = []
    for step in steps:
        sys.stdout.write(f"\n{step.title}\n")
        sys.stdout.flush()
        printed = walk.take(step)
        sys.stdout.write("".join(f"\n{part.printed}" for part in printed))
        sys.stdout.write(f"[{walk.seconds[step.title]:.0f} s]\n")
        shown += printed
    return shown


def _print_farewell(cluster: UsedCluster, down: str) -> None:
    """Print commands to try next, and `down`, which takes the cluster down."""
    kubectl = cluster.kubectl
    sys.stdout.write(
        f"\nLook for yourself:\n"
        f"  export KUBECONFIG={kubectl.kubeconfig}\n"
        f"  {kubectl.program} -n {NAMESPACE} get icdc,sparkapplications,pods\n"
        f"  {Path(sys.executable).parent / 'icdc'} plan {NAME} -n {NAMESPACE}\n"
        + (f"Take it down: {down}\n" if down else "")
    )


if __name__ == "__main__":
    sys.exit(main())
