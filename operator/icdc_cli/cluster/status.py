"""`icdc status`: one pipeline as `kubectl get` shows it, then its tables and conditions.

`kubectl get` shows the columns of the CRD and `kubectl describe` all fields; a person on duty wants
what lies between: the tables in a table, each condition with its message, and the time until the
next attempt. One read answers it, without a run.

The exit code is that of `icdc run` for a pipeline left in this status.
"""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from icdc_api.errors import BadSpec
from icdc_api.status.conditions import ConditionStatus, ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, parse_status
from icdc_cli import exits, options, terminal, text_tables
from icdc_cli.cluster import session
from icdc_cli.cluster.session import Target
from icdc_cli.exits import Exit
from icdc_cli.options import Output
from icdc_operator.cluster.kube.kinds import Resource

_HEAD = ("NAME", "READY", "PHASE", "TABLES", "BEHIND", "LAG", "RUN", "AGE")
_CONDITIONS_HEAD = ("CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "status",
        help="show a pipeline in a cluster",
        description="Shows a pipeline in a cluster: its state, its tables, its conditions. "
        "Exit code 1 when a table waits for a person, 2 when the spec is wrong, 3 when a fault "
        "outlasted the retries.",
    )
    session.add_target(parser)
    options.add_output(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"show every table; without it, of more than {text_tables.MAX_ROWS} tables only those "
        "that are stalled, failing, not exported yet or behind are listed, and the others are "
        "counted",
    )
    options.add_verbose(parser)
    parser.set_defaults(command=session.carry_out(_show_status))


async def _show_status(target: Target, arguments: argparse.Namespace) -> Exit:
    resource = await target.read_pipeline()
    # As kubectl does: who wrote which field is of no interest to a reader.
    resource.get("metadata", {}).pop("managedFields", None)
    if arguments.output != Output.TEXT:
        # Before the status is parsed: what another version wrote can then still be seen.
        options.write(resource, arguments.output)
    status = parse_status_of(resource)
    if arguments.output == Output.TEXT:
        terminal.say(
            describe_pipeline(resource, status, every=arguments.all, now=datetime.now(UTC))
        )
    code, message = choose_exit(status)
    if message:
        terminal.complain(message)
    return code


def parse_status_of(resource: Resource) -> PipelineStatus:
    """Return the status of the pipeline. BadSpec where another version has written it.

    The models of a status are strict, as is right for the operator, which would otherwise lose a
    field that it does not know. A laptop is often older or newer than the cluster's operator, so
    here that is an expected answer and names both sides.
    """
    try:
        return parse_status(resource.get("status") or {})
    except ValidationError as error:
        # Without the input: a status may quote what is not for a terminal. One problem is enough.
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        version = (resource.get("status") or {}).get("operatorVersion", "unknown")
        raise BadSpec(
            f"the status was written by another version (operator {version}) than this icdc can "
            f"read: status.{where}: {first['msg']}; see it by -o yaml"
        ) from error


def choose_exit(status: PipelineStatus) -> tuple[Exit, str]:
    """Return the exit code for the status, and the message for standard error.

    SpecValid first: with a spec that is wrong the operator goes on by the last one that was right,
    and all else in the status is about that one.
    """
    valid = status.find_condition(ConditionType.SPEC_VALID)
    if valid is not None and valid.status == ConditionStatus.FALSE:
        return Exit.USAGE, valid.message
    return exits.of_status(status)


def describe_pipeline(
    resource: Resource, status: PipelineStatus, *, every: bool, now: datetime
) -> str:
    """Return all of it for a person, parts apart by an empty line; `now` has a time zone.

    The line of the pipeline comes first, then what is strange about it, tables, conditions.
    `every`: a line for each table, however many there are.
    """
    parts = [text_tables.align(_HEAD, [_build_row(resource, status, now)])]
    parts += ["\n".join(notes)] if (notes := list(_list_notes(resource, status, now))) else []
    if status.tables:
        hint = f"icdc status {resource['metadata']['name']} --all shows every table"
        overview = text_tables.format_overview(status.tables, hint=hint)
        parts.append(text_tables.format_status(status.tables) if every else overview)
    rows = [
        (
            condition.type.value,
            condition.status.value,
            condition.reason,
            _format_age(condition.last_transition_time, now),
            " ".join(condition.message.split()),
        )
        for condition in status.conditions
    ]
    parts += [text_tables.align(_CONDITIONS_HEAD, rows)] if rows else []
    return "\n\n".join(parts)


def _build_row(resource: Resource, status: PipelineStatus, now: datetime) -> tuple[str, ...]:
    ready = status.find_condition(ConditionType.READY)
    summary, run = status.summary, status.current_run
    # An empty status has defaults, which would read as the opinion of an operator.
    seen = status.observed_generation is not None
    behind = summary.snapshots_behind if summary else None
    lag = summary.lag_seconds if summary else None
    return (
        resource["metadata"]["name"],
        ready.status.value if ready else text_tables.NONE,
        status.phase.value if seen else text_tables.NONE,
        summary.tables if summary else text_tables.NONE,
        text_tables.NONE if behind is None else str(behind),
        text_tables.NONE if lag is None else text_tables.format_duration(lag),
        run.name if run else text_tables.NONE,
        _format_age(_parse_creation_time(resource), now),
    )


def _list_notes(resource: Resource, status: PipelineStatus, now: datetime) -> Iterator[str]:
    """Yield a sentence for each thing that makes the table say less than it seems to.

    Most of all a status of an older generation: whoever has just applied a spec would take what
    stands there for its result.
    """
    generation = resource["metadata"].get("generation")
    if status.observed_generation is None:
        yield "No operator has seen the pipeline yet."
    elif generation is not None and generation != status.observed_generation:
        yield (
            f"The status is about generation {status.observed_generation}; the operator has not "
            f"seen generation {generation} yet."
        )
    active = status.find_condition(ConditionType.RUN_ACTIVE)
    # Before the next attempt: that time may be over while the pipeline waits for others.
    if active is not None and active.reason == "Queued":
        yield f"The next run waits for its turn: {active.message}."
    elif status.next_attempt_time is not None:
        wait = int((status.next_attempt_time - now).total_seconds())
        yield (
            "The next attempt is due."
            if wait <= 0
            else (f"The next attempt starts in {text_tables.format_duration(wait)}.")
        )


def _parse_creation_time(resource: Resource) -> datetime | None:
    created: Any = resource["metadata"].get("creationTimestamp")
    return datetime.fromisoformat(created) if isinstance(created, str) else None


def _format_age(moment: datetime | None, now: datetime) -> str:
    # Clocks differ: what lies ahead happened just now.
    if moment is None:
        return text_tables.NONE
    return text_tables.format_duration(max(0, int((now - moment).total_seconds())))
