"""From the arguments of a command to a cluster and the pipeline that is meant.

A command is a function from a `Target` to an exit code; everything that is the same for all of them
is here: choose the context as kubectl does, open the connection, close it, and translate errors.
The border where what the cluster refuses becomes bad usage: it was this person's request.
"""

import argparse
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from icdc_api import naming
from icdc_api.errors import BadSpec
from icdc_cli import options
from icdc_cli.cluster import kubeconfig
from icdc_cli.exits import Exit
from icdc_operator.cluster.kube import api_errors, kinds
from icdc_operator.cluster.kube.api import METADATA_ONLY, ClusterApi
from icdc_operator.cluster.kube.environment import KUBECONFIG
from icdc_operator.cluster.kube.kinds import Resource


@dataclass(frozen=True)
class Target:
    """One pipeline in a cluster, whether it is there or not."""

    api: ClusterApi
    """An open connection, which ends with the command."""
    namespace: str
    """Namespace of the pipeline: of -n, else of the context, else `default`."""
    name: str
    """Name of the pipeline, as typed."""

    async def read_pipeline(self) -> Resource:
        """Return the pipeline as it is now; BadSpec when there is none."""
        pipeline = await self.api.get_pipeline(self.namespace, self.name)
        if pipeline is None:
            raise BadSpec(
                f"there is no {naming.KIND} {self.name} in the namespace {self.namespace}"
                f"{await self._suggest_name()}; all of them: icdc status --all-namespaces"
            )
        return pipeline

    async def _suggest_name(self) -> str:
        """Return which pipeline was probably meant; empty where none is near, or none is known."""
        try:
            pipelines = await self.api.list_objects(
                kinds.PIPELINE, self.namespace, accept=METADATA_ONLY
            )
        except api_errors.ClusterError:
            # Whoever may read one pipeline may lack the permission to list them.
            return ""
        return options.suggest_name(
            self.name, [pipeline["metadata"]["name"] for pipeline in pipelines]
        )


Result = TypeVar("Result")

Work = Callable[[Target, argparse.Namespace], Coroutine[Any, Any, Result]]
"""What a command does. It awaits requests and nothing else, see `thin_client`."""


def add_target(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add `NAME` and the options of `add_cluster`.

    `required` is False for commands that also take a file; see `plan_verify.is_of_file`.
    """
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs=None if required else "?",
        help="the pipeline" if required else "the pipeline in a cluster",
    )
    add_cluster(parser)


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add `-n`, `--context` and `--kubeconfig`, by which a cluster is chosen as with kubectl."""
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        help="namespace of the pipeline (default: that of the context)",
    )
    add_context(parser)


def add_context(parser: argparse.ArgumentParser) -> None:
    """Add `--context` and `--kubeconfig`, which choose a cluster."""
    parser.add_argument(
        "--context", metavar="CONTEXT", help="context of the kubeconfig (default: the current one)"
    )
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help=f"the kubeconfig (default: {KUBECONFIG}, else ~/.kube/config)",
    )


def carry_out(work: Work[Exit]) -> Callable[[argparse.Namespace], int]:
    """Return the command that does `work` on the pipeline that its arguments name."""
    return lambda arguments: run_for(work, arguments)


def run_for(work: Work[Result], arguments: argparse.Namespace) -> Result:
    """Do `work` on the pipeline that the arguments name; return its result.

    BadSpec for what the cluster refuses. Ctrl-C is a KeyboardInterrupt in `work`, which passes each
    `finally`: that is how a question is withdrawn.
    """

    def start(api: ClusterApi, namespace: str) -> Coroutine[Any, Any, Result]:
        return work(Target(api, namespace, arguments.name), arguments)

    return run_in_namespace(start, arguments)


def run_in_namespace(
    work: Callable[[ClusterApi, str], Coroutine[Any, Any, Result]], arguments: argparse.Namespace
) -> Result:
    """Do `work` in the namespace that the arguments name; return its result. See `run_for`."""
    env = choose_environment(arguments)
    context = kubeconfig.choose_context(env, arguments.context)
    namespace = arguments.namespace or context.namespace
    # Here and not above: it brings urllib3, and `icdc --help` needs no connection.
    from icdc_cli.cluster import thin_client

    try:
        return thin_client.run(lambda api: work(api, namespace), env, context=context.name)
    # Neither passes by itself. For the operator they are failures of a run, here they are an answer
    # to what was typed; Unavailable stays what it is, and ends with code 3.
    except (api_errors.Denied, api_errors.Invalid) as error:
        raise BadSpec(error.message) from error


def run_limited(question: Callable[[], Result], *, seconds: float) -> Result:
    """Return the answer to a question that must not hold the command up; Unavailable if it is late.

    For what is of use only if it is quick, such as the versions in a cluster.
    """
    # Not a Future: the import of `concurrent` would cost every command of a cluster 0.04 s.
    answers: list[Result] = []
    raised: list[BaseException] = []

    def ask() -> None:
        try:
            answers.append(question())
        except BaseException as error:  # noqa: BLE001 - raised where the answer is waited for
            raised.append(error)

    # A thread that is left behind: neither the search for a host's address nor a credential plugin
    # that asks a person can be ended from within.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    if raised:
        raise raised[0]
    if not answers:
        raise api_errors.Unavailable(f"the cluster has not answered within {seconds:g} s")
    return answers[0]


def choose_environment(arguments: argparse.Namespace) -> Mapping[str, str]:
    """Return the environment in which a kubeconfig is searched for; `--kubeconfig` replaces it."""
    # As its variable: it goes before a pod's own account as well, and messages name its path.
    given = arguments.kubeconfig
    return os.environ if given is None else {**os.environ, KUBECONFIG: given}
