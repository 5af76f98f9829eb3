"""`icdc version` and `icdc --version`: which versions of client, operator and CRD are in use.

A question about an error begins with these three, since a laptop is upgraded by other people than
the cluster. The operator's version is the one that it writes into the status of pipelines, because
whoever may read a pipeline may read that; the CRD's is the label that the chart sets.

    no cluster is configured     the client's version alone
    --client                     the same, and nothing is asked
    the cluster does not answer  the client's version, and why the others are not known

It never fails and waits SECONDS at most: programs call `--version` to find out whether `icdc` is
there.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import icdc_api
from icdc_api import naming
from icdc_api.errors import IcdcError
from icdc_cli import options, terminal
from icdc_cli.cluster import kubeconfig, session
from icdc_cli.exits import Exit
from icdc_cli.options import Output
from icdc_operator.cluster.kube import api_errors, kinds
from icdc_operator.cluster.kube.api import ClusterApi

SECONDS = 3.0
"""How long the cluster is waited for, the login of a credential plugin included."""


class VersionAsked(Exception):  # noqa: N818 - it is no failure: `main` runs the command
    """`--version` stands before the command, which is not read."""


class VersionOption(argparse.Action):
    """`--version` of the root: stands for `icdc version`, for who expects an option."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the versions, as icdc version")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Raise VersionAsked: while arguments are parsed, nobody handles the errors of a run."""
        raise VersionAsked


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "version",
        help="show the versions of icdc, of the operator and of the CRD",
        description="Shows the version of icdc and, where a cluster is configured and answers "
        f"within {SECONDS:.0f} s, those of the operator and of the CRD in it. The exit code is 0.",
    )
    session.add_cluster(parser)
    parser.add_argument("--client", action="store_true", help="only that of icdc; asks no cluster")
    options.add_output(parser)
    options.add_verbose(parser)
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    """Carry out the command; return the exit code."""
    versions: dict[str, Any] = {"client": icdc_api.__version__}
    if not arguments.client:
        versions |= _ask_with_limit(arguments)
    if arguments.output == Output.TEXT:
        terminal.say("\n".join(_describe(versions)))
    else:
        options.write(versions, arguments.output)
    return Exit.DONE


def _ask_with_limit(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the answer of the cluster, or why there is none within SECONDS."""
    try:
        return session.run_limited(lambda: _ask(arguments), seconds=SECONDS)
    except IcdcError as error:
        return {"problem": error.message}
    # Whatever it is, such as a damaged kubeconfig: the client's version is known all the same.
    except Exception as error:  # noqa: BLE001 - a question on which no answer may depend
        return {"problem": f"internal error: {type(error).__name__}: {error}"}


def _ask(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what the cluster says; nothing where none is configured."""
    env = session.choose_environment(arguments)
    context = kubeconfig.choose_context(env, arguments.context)
    # A host without a cluster is no fault: `icdc run` needs none.
    if context.name is None and not kubeconfig.is_in_pod(env):
        return {}
    return session.run_in_namespace(_read_versions, arguments)


async def _read_versions(api: ClusterApi, namespace: str) -> dict[str, Any]:
    versions: dict[str, Any] = {"namespace": namespace}
    try:
        pipelines = await api.list_objects(kinds.PIPELINE, namespace)
        # By what it has written here: who has pipelines may seldom read the operator's own
        # namespace.
        written = {(pipeline.get("status") or {}).get("operatorVersion") for pipeline in pipelines}
        versions["operators"] = sorted(version for version in written if version)
    except (api_errors.Denied, api_errors.NotFound) as error:
        # A permission on the CRD may be there nevertheless, and the other way round.
        versions["operatorProblem"] = error.message
    try:
        crd = await api.get(kinds.CRD, None, naming.CRD_NAME)
        labels = {} if crd is None else crd["metadata"].get("labels") or {}
        served = [v["name"] for v in crd["spec"]["versions"] if v["served"]] if crd else []
        versions["crd"] = {"served": served, "release": labels.get(naming.LABEL_VERSION)}
    except api_errors.Denied as error:
        versions["crdProblem"] = error.message
    return versions


def _describe(versions: dict[str, Any]) -> list[str]:
    """Return the lines for a person.

    icdc      0.2.0
    operator  0.1.0 (as pipelines in the namespace lake say)
    CRD       v1alpha1, of release 0.1.0
    """
    lines = [f"icdc      {versions['client']}"]
    if "problem" in versions:
        return [*lines, f"cluster   unknown: {versions['problem']}"]
    if "namespace" not in versions:
        return lines
    where = f"in the namespace {versions['namespace']}"
    if versions.get("operators"):
        operator = f"{', '.join(versions['operators'])} (as pipelines {where} say)"
    else:
        problem = versions.get("operatorProblem")
        operator = f"unknown: {problem or f'no pipeline {where} has a status'}"
    lines.append(f"operator  {operator}")
    crd = versions.get("crd")
    if crd is None:
        return [*lines, f"CRD       unknown: {versions['crdProblem']}"]
    if not crd["served"]:
        return [*lines, "CRD       not installed"]
    release = f", of release {crd['release']}" if crd["release"] else ", not made by the chart"
    return [*lines, f"CRD       {', '.join(crd['served'])}{release}"]
