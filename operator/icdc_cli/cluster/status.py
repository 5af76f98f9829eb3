"""`icdc status`: one pipeline as `kubectl get` shows it, then its tables and conditions; or a list.

`kubectl get` shows the columns of the CRD and `kubectl describe` all fields; a person on duty wants
what lies between: the tables in a table, each condition with its message, and the time until the
next attempt. One read answers it, without a run.

The exit code is that of `icdc run` (without `--once`) for a pipeline left in this status. Of a list
it is the least code but 0 of a pipeline in it: what a person must do comes before what may pass by
itself.
"""

import argparse
import sys
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from icdc_api import naming
from icdc_api.errors import BadSpec
from icdc_api.status.conditions import ConditionStatus, ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, parse_status
from icdc_cli import exits, options, terminal
from icdc_cli.cluster import session, views
from icdc_cli.cluster.session import Target
from icdc_cli.cluster.views import FOR_PEOPLE, StatusView
from icdc_cli.exits import Exit
from icdc_cli.tables import text_tables
from icdc_cli.tables.status_notes import list_notes
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.kube.kinds import Resource

_HEAD = ("NAME", "READY", "PHASE", "TABLES", "BEHIND", "LAG", "RUN", "AGE")
_WIDE_HEAD = ("EXPORTED", "EXPORT", "FAILURES", "MESSAGE")
_CONDITIONS_HEAD = ("CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE")
_CUT = "Lines are cut at the edge of the terminal: -o wide shows all of them."


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "status",
        help="show a pipeline in a cluster, or list all of them",
        description="Shows a pipeline in a cluster: its state, its tables, its conditions. Without "
        "NAME: lists the pipelines of the namespace. "
        "Exit code 1 when a table waits for a person, 2 when the spec is wrong, 3 when a fault "
        "outlasted the retries.",
    )
    session.add_target(parser, required=False)
    parser.add_argument(
        "-A", "--all-namespaces", action="store_true", help="list those of all namespaces"
    )
    parser.add_argument(
        "-l", "--selector", metavar="SELECTOR", help="list those with these labels, such as team=a"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=views.parse,
        default=StatusView.TEXT,
        metavar="{text,wide,name,json,yaml,jsonpath=TEMPLATE}",
        help="text and wide for people, the others for programs (default: text)",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"show every table; without it, of more than {text_tables.MAX_ROWS} tables only those "
        "that are stalled, failing, not exported yet or behind are listed, and the others are "
        "counted",
    )
    options.add_verbose(parser)
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    """Carry out the command; return the exit code."""
    if arguments.name is None:
        return session.run_in_namespace(
            lambda api, namespace: _show_list(api, namespace, arguments), arguments
        )
    for option, given in (("-A", arguments.all_namespaces), ("-l", arguments.selector)):
        if given:
            raise BadSpec(f"{option} is allowed only without NAME: it lists pipelines")
    return session.run_for(_show_one, arguments)


async def _show_one(target: Target, arguments: argparse.Namespace) -> Exit:
    resource = await target.read_pipeline()
    # As kubectl does: who wrote which field is of no interest to a reader.
    resource.get("metadata", {}).pop("managedFields", None)
    view = arguments.output
    if view == StatusView.NAME:
        terminal.say(views.name_resource(resource))
        return Exit.DONE
    # Before the status is parsed: what another version wrote can then still be seen.
    views.write(resource, view)
    status = parse_status_of(resource)
    if view in FOR_PEOPLE:
        wide = view == StatusView.WIDE
        text = describe_pipeline(
            resource, status, every=arguments.all, wide=wide, now=datetime.now(UTC)
        )
        terminal.say(text if wide else terminal.fit(text, hint=_CUT))
    code, message = choose_exit(status)
    if message:
        terminal.complain(message)
    return code


async def _show_list(api: ClusterApi, namespace: str, arguments: argparse.Namespace) -> Exit:
    everywhere, view = arguments.all_namespaces, arguments.output
    pipelines = await api.list_objects(
        kinds.PIPELINE, None if everywhere else namespace, selector=arguments.selector or ""
    )
    for pipeline in pipelines:
        pipeline["metadata"].pop("managedFields", None)
    if view == StatusView.NAME:
        sys.stdout.write("".join(f"{views.name_resource(pipeline)}\n" for pipeline in pipelines))
        return Exit.DONE
    # The kind in which kubectl writes several objects.
    views.write({"apiVersion": "v1", "kind": "List", "items": pipelines}, view)
    if not pipelines and view in FOR_PEOPLE:
        where = "any namespace" if everywhere else f"the namespace {namespace}"
        terminal.complain(f"there is no {naming.KIND} in {where}")
    codes, rows = {Exit.DONE}, []
    for pipeline in pipelines:
        metadata = pipeline["metadata"]
        try:
            status = parse_status_of(pipeline)
            code, message = choose_exit(status)
        except BadSpec as error:
            # One that another version wrote must not hide the others.
            status, code, message = PipelineStatus(), Exit.USAGE, error.message
        row = _build_row(pipeline, status, datetime.now(UTC), wide=view == StatusView.WIDE)
        rows.append((metadata["namespace"], *row) if everywhere else row)
        codes.add(code)
        if message:
            terminal.complain(f"{metadata['namespace']}/{metadata['name']}: {message}")
    if rows and view in FOR_PEOPLE:
        heading = _list_columns(wide=view == StatusView.WIDE)
        terminal.say(text_tables.align(("NAMESPACE", *heading) if everywhere else heading, rows))
    return min(codes - {Exit.DONE}, default=Exit.DONE)


def parse_status_of(resource: Resource) -> PipelineStatus:
    """Return the status of the pipeline. BadSpec where another version has written it.

    The models of a status are strict, as is right for the operator, which would otherwise lose a
    field that it does not know. A laptop is often older or newer than the cluster's operator, so
    here that is an expected answer and names both sides.
    """
    written = resource.get("status") or {}
    try:
        return parse_status(written)
    except ValidationError as error:
        # Without the input: a status may quote what is not for a terminal. One problem is enough.
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(("status", *map(str, first["loc"])))
        # A file of a state directory may hold anything, such as a text.
        fields = written if isinstance(written, dict) else {}
        version = fields.get("operatorVersion", "unknown")
        raise BadSpec(
            f"the status was written by another version (operator {version}) than this icdc can "
            f"read: {where}: {first['msg']}; see it by -o yaml"
        ) from error


def describe_hindrance(status: PipelineStatus) -> str:
    """Return what keeps the active run from going on, with a colon before it; empty for nothing.

    RunActive has the message "run shop-e1-1: pod/shop-e1-1-driver: Unschedulable: …"  → ": pod/…"
    """
    active, run = status.find_condition(ConditionType.RUN_ACTIVE), status.current_run
    lead = "" if run is None else f"run {run.name}"
    if active is None or not lead or not active.message.startswith(f"{lead}: "):
        return ""
    return active.message.removeprefix(lead)


def describe_queue(status: PipelineStatus) -> str:
    """Return the position of the next run in the queue, and the limit; empty if it does not wait.

    Other pipelines have all the runs that the operator starts at a time.
    """
    active = status.find_condition(ConditionType.RUN_ACTIVE)
    return active.message if active is not None and active.reason == "Queued" else ""


def choose_exit(status: PipelineStatus) -> tuple[Exit, str]:
    """Return the exit code for the status, and the message for standard error.

    SpecValid first: with a spec that is wrong the operator goes on by the last one that was right,
    and all else in the status is about that one.
    """
    valid = status.find_condition(ConditionType.SPEC_VALID)
    if valid is not None and valid.status == ConditionStatus.FALSE:
        return Exit.USAGE, valid.message
    return exits.choose_for_status(status)


def describe_pipeline(
    resource: Resource, status: PipelineStatus, *, every: bool, now: datetime, wide: bool = False
) -> str:
    """Return all of it for a person, parts apart by an empty line; `now` has a time zone.

    The line of the pipeline comes first, then what is strange about it, tables, conditions.
    `every`: a line for each table, however many there are. `wide`: all columns of the pipeline.
    """
    row = _build_row(resource, status, now, wide=wide)
    generation = resource["metadata"].get("generation")
    parts = [text_tables.align(_list_columns(wide=wide), [row])]
    parts += ["\n".join(notes)] if (notes := list(list_notes(status, generation, now=now))) else []
    if status.tables:
        hint = f"icdc status {resource['metadata']['name']} --all shows every table"
        overview = text_tables.format_overview(status.tables, hint=hint)
        parts.append(text_tables.format_status(status.tables) if every else overview)
    rows = [
        (
            condition.type.value,
            condition.status.value,
            condition.reason,
            text_tables.format_age(condition.last_transition_time, now),
            " ".join(condition.message.split()),
        )
        for condition in status.conditions
    ]
    parts += [text_tables.align(_CONDITIONS_HEAD, rows)] if rows else []
    return "\n\n".join(parts)


def _list_columns(*, wide: bool) -> tuple[str, ...]:
    return (*_HEAD, *_WIDE_HEAD) if wide else _HEAD


def _build_row(
    resource: Resource, status: PipelineStatus, now: datetime, *, wide: bool
) -> tuple[str, ...]:
    ready = status.find_condition(ConditionType.READY)
    summary, run = status.summary, status.current_run
    # An empty status has defaults, which would read as the opinion of an operator.
    seen = status.observed_generation is not None
    behind = summary.snapshots_behind if summary else None
    lag = summary.lag_seconds if summary else None
    exported = status.find_condition(ConditionType.EXPORTED)
    further = (
        exported.status.value if exported else text_tables.NONE,
        summary.export or text_tables.NONE if summary else text_tables.NONE,
        str(status.consecutive_failures) if seen else text_tables.NONE,
        " ".join(ready.message.split()) if ready else "",
    )
    return (
        resource["metadata"]["name"],
        ready.status.value if ready else text_tables.NONE,
        status.phase.value if seen else text_tables.NONE,
        summary.tables if summary else text_tables.NONE,
        text_tables.NONE if behind is None else str(behind),
        text_tables.format_duration(lag),
        run.name if run else text_tables.NONE,
        text_tables.format_age(_parse_creation_time(resource), now),
        *(further if wide else ()),
    )


def _parse_creation_time(resource: Resource) -> datetime | None:
    created: Any = resource["metadata"].get("creationTimestamp")
    return datetime.fromisoformat(created) if isinstance(created, str) else None
