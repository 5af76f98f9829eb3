"""`icdc pause`, `resume`, `restart`, `resync`, `rollback`: one field of the spec is changed.

`kubectl patch` could do the same. What a person gets here: table names are checked, a nonce is
raised above whatever was used before, and the answer says whether anything changed. `icdc status`
shows what came of it; `--wait` of the last three waits for that (`awaiting`).

    pause     spec.suspend: true
    resume    spec.suspend: false
    restart   spec.restartNonce: 1 + the greatest so far
    resync    spec.resync: {nonce: 1 + the greatest so far, tables, mode}
    rollback  the same, with the mode Rollback

A pipeline that is stored in Git is changed there: what is patched here would be put back.
"""

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from icdc_api.errors import BadSpec
from icdc_api.status.runs import ResyncMode
from icdc_cli import options, terminal
from icdc_cli.cluster import session
from icdc_cli.cluster.session import Target
from icdc_cli.exits import Exit
from icdc_operator.cluster.kube import api_errors, kinds
from icdc_operator.cluster.kube.kinds import Resource

if TYPE_CHECKING:
    # Only for their types, see `_restart`.
    from icdc_cli.cluster.awaiting.requests import AwaitedRestart, AwaitedResync

MAX_TRIES = 5
"""Times that a nonce is raised anew because somebody else wrote the pipeline in between."""


def add_pause_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `icdc pause` to the command line."""
    parser = commands.add_parser(
        "pause",
        help="suspend a pipeline in a cluster",
        description="Sets spec.suspend: the current batch is finished, then the pipeline stops. "
        "Its progress is retained.",
    )
    session.add_target(parser)
    options.add_verbose(parser)
    parser.set_defaults(command=session.carry_out(_pause))


def add_resume_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `icdc resume` to the command line."""
    parser = commands.add_parser(
        "resume",
        help="resume a suspended pipeline in a cluster",
        description="Sets spec.suspend to false: the pipeline continues where it stopped.",
    )
    session.add_target(parser)
    options.add_verbose(parser)
    parser.set_defaults(command=session.carry_out(_resume))


def add_restart_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `icdc restart` to the command line."""
    parser = commands.add_parser(
        "restart",
        help="end the run of a pipeline in a cluster, and start another now",
        description="Raises spec.restartNonce: a run that is active ends after its batch, and the "
        "next one starts at once, also where failures have used up all attempts. Progress is "
        "retained.",
    )
    session.add_target(parser)
    _add_wait(parser, "until the new run has ended or, if it is continuous, has caught up")
    options.add_verbose(parser)
    parser.set_defaults(command=session.carry_out(_restart))


def add_resync_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `icdc resync` to the command line."""
    parser = commands.add_parser(
        "resync",
        help="export, compare, repair or roll back tables of a pipeline",
        description="Raises spec.resync.nonce. Export: a new index is filled for each table while "
        "the old one serves. Verify: index and table are compared. Repair: what differs is "
        "corrected. Their result is in status.tables[].verification and in the condition Verified. "
        "Rollback: readers get the index before again, as by icdc rollback.",
    )
    _add_tables(parser)
    parser.add_argument(
        "--mode",
        type=options.build_choice_type(ResyncMode),
        default=ResyncMode.EXPORT,
        metavar=f"{{{','.join(ResyncMode)}}}",
        help="what to do (default: Export)",
    )
    _add_wait(parser, "until it has ended, and say what came of it")
    options.add_verbose(parser)
    parser.set_defaults(command=session.carry_out(_resync))


def add_rollback_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `icdc rollback` to the command line."""
    parser = commands.add_parser(
        "rollback",
        help="switch readers of a pipeline's tables back to the index before",
        description="Raises spec.resync.nonce with the mode Rollback: readers get the index that "
        "the last re-export has replaced. A second rollback returns to the other index. A table "
        "whose spec asks for other documents stalls as RollbackRefused until it is changed back. "
        "Without --table, a table stays as it is if it has no earlier index to go on from: none "
        "can be used again, its snapshot has expired, or the table was created again.",
    )
    _add_tables(parser)
    _add_wait(parser, "until it has ended, and say what came of it")
    options.add_verbose(parser)
    parser.set_defaults(command=session.carry_out(_resync), mode=ResyncMode.ROLLBACK)


def _add_tables(parser: argparse.ArgumentParser) -> None:
    session.add_target(parser)
    parser.add_argument(
        "--table",
        action="append",
        default=[],
        metavar="TABLE",
        help="only this table, as in spec.tables[].name; repeatable (default: all)",
    )


def _add_wait(parser: argparse.ArgumentParser, until: str) -> None:
    """Add `--wait` and `--timeout`, as `kubectl` has them."""
    parser.add_argument(
        "--wait",
        action="store_true",
        help=f"wait {until}: exit code 1 when a table waits for a person or differs, 3 when a "
        "fault outlasted the retries or the time is over. Ctrl-C ends the waiting alone",
    )
    parser.add_argument(
        "--timeout",
        type=options.build_number_type(0),
        default=0,
        metavar="SECONDS",
        help="how long to wait with --wait (default: 0, without limit)",
    )


async def _pause(target: Target, _arguments: argparse.Namespace) -> Exit:
    if await _suspend(target, True):
        # A driver has no longer to finish it.
        when = "once a batch under way is finished, or after two minutes"
        terminal.say(f"{target.name} will pause {when}")
    else:
        terminal.say(f"{target.name} is paused already")
    return Exit.DONE


async def _resume(target: Target, _arguments: argparse.Namespace) -> Exit:
    if await _suspend(target, False):
        terminal.say(f"{target.name} goes on")
    else:
        terminal.say(f"{target.name} is not paused")
    return Exit.DONE


async def _suspend(target: Target, wanted: bool) -> bool:
    """Set `spec.suspend`; return whether that changed it."""
    pipeline = await target.read_pipeline()
    if bool(_get_spec(pipeline).get("suspend", False)) is wanted:
        return False
    # Whatever its version: unlike a nonce, a flag that two people set is set.
    await _patch(target, {"spec": {"suspend": wanted}})
    return True


async def _restart(target: Target, arguments: argparse.Namespace) -> Exit:
    def build(pipeline: Resource) -> dict[str, Any]:
        asked = int(_get_spec(pipeline).get("restartNonce", 0))
        return {"restartNonce": _compute_nonce(pipeline, "restartNonce", asked)}

    pipeline = await _patch_newest(target, build)
    terminal.say(f"{target.name}: a new run is requested{_describe_delay(pipeline)}")
    if not arguments.wait:
        return Exit.DONE
    # Here and not above, as in `_resync`: it brings what judges runs, which no other command needs.
    from icdc_cli.cluster.awaiting import requested

    return await _wait(target, requested.build_restart(pipeline), arguments)


async def _resync(target: Target, arguments: argparse.Namespace) -> Exit:
    wanted = list(dict.fromkeys(arguments.table))

    def build(pipeline: Resource) -> dict[str, Any]:
        _check_tables(pipeline, wanted)
        asked = int((_get_spec(pipeline).get("resync") or {}).get("nonce", 0))
        nonce = _compute_nonce(pipeline, "resyncNonce", asked)
        return {"resync": {"nonce": nonce, "tables": wanted, "mode": str(arguments.mode)}}

    pipeline = await _patch_newest(target, build)
    nonce = _get_spec(pipeline)["resync"]["nonce"]
    of = ", ".join(wanted) if wanted else "all tables"
    later = _describe_delay(pipeline)
    terminal.say(f"{target.name}: resync {nonce} of {of} is requested{later}")
    if not arguments.wait:
        return Exit.DONE
    from icdc_cli.cluster.awaiting import requested

    request = requested.build_resync(pipeline, arguments.mode, tuple(wanted))
    return await _wait(target, request, arguments)


async def _wait(
    target: Target, request: "AwaitedResync | AwaitedRestart", arguments: argparse.Namespace
) -> Exit:
    from icdc_cli.cluster.awaiting import loop

    # Before what is written while it waits: the two streams are read apart.
    sys.stdout.flush()
    try:
        return await loop.wait(target, request, seconds=arguments.timeout)
    except KeyboardInterrupt:
        terminal.complain(f"{request.what} goes on in the cluster; see icdc status {target.name}")
        raise


def _describe_delay(pipeline: Resource) -> str:
    """Return what to add where nothing begins yet, because the pipeline is suspended."""
    return "; it begins when the pipeline is resumed" if _get_spec(pipeline).get("suspend") else ""


async def _patch_newest(target: Target, build: Callable[[Resource], dict[str, Any]]) -> Resource:
    """Change the spec as `build` says of its newest version; return the pipeline after that."""
    for tries_left in reversed(range(MAX_TRIES)):
        pipeline = await target.read_pipeline()
        changes = build(pipeline)
        # Of an older version nothing is patched: two that ask at once ask twice.
        version = {"resourceVersion": pipeline["metadata"]["resourceVersion"]}
        try:
            patched = await _patch(target, {"metadata": version, "spec": changes})
        except api_errors.Conflict:
            # The last conflict is reported as it is: somebody writes this pipeline all the time.
            if not tries_left:
                raise
        else:
            break
    return patched


async def _patch(target: Target, patch: dict[str, Any]) -> Resource:
    return await target.api.merge_patch(kinds.PIPELINE, target.namespace, target.name, patch)


def _compute_nonce(pipeline: Resource, name: str, asked: int) -> int:
    """Return a nonce above `asked`, the one in the spec, and the one that was last acted on.

    `name`: of the field of `status.observedTriggers` in which the operator records that.

    A spec may have been restored from a backup: with 2 in it, and 4 acted on, the result is 5, as a
    3 would ask for nothing. With 4 in it and 4 acted on it is 5; with neither it is 1.
    """
    triggers = (pipeline.get("status") or {}).get("observedTriggers") or {}
    return 1 + max(asked, int(triggers.get(name, 0)))


# Not `options.check_tables`, which takes the models of a spec: to build them would take longer than
# the requests of this command.
def _check_tables(pipeline: Resource, wanted: list[str]) -> None:
    names = [str(table.get("name")) for table in _get_spec(pipeline).get("tables") or ()]
    for name in wanted:
        if name not in names:
            raise BadSpec(f"--table {name}: the pipeline {options.describe_missing(name, names)}")


def _get_spec(pipeline: Resource) -> dict[str, Any]:
    spec: dict[str, Any] = pipeline.get("spec") or {}
    return spec
