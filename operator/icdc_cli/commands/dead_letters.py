"""`icdc dead-letters list` and `replay`: rows that an index refused, and another attempt for them.

A refused row is a difference of index and table that a pipeline lives with: one bad value must not
stop a table. Somebody has to see these rows, mend what refused them, and send them again, without
queries of their own to OpenSearch. `replay` reads the row anew from the applied snapshot and does
not send what was stored, which later batches may have overtaken.

Of a file Spark answers on this host; of a pipeline in a cluster, a run in the cluster does. It
must not know how either is reached.
"""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from icdc_api.errors import BadSpec
from icdc_api.job.answers import ReplayEntry, fill
from icdc_api.job.modes import RunMode
from icdc_api.status.runs import Failure, RunKind
from icdc_api.status.triggers import MAX_ASKED_IDS, AskedKind
from icdc_cli import options
from icdc_cli.cluster import session
from icdc_cli.commands import plan_verify
from icdc_cli.tables import answer_tables


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "dead-letters",
        help="show and re-send rows that an index refused",
        description="Rows that an index refused are stored in <index>-dead-letters, and their "
        "documents are not in the index. For a pipeline in a cluster (NAME), a run in the cluster "
        "answers; a continuous run does so without stopping.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    listing = actions.add_parser(
        "list",
        help="show them",
        description="Shows the refused rows of the newest batches by their ids, without values of "
        "rows: a reason ends before a quoted value. An incomplete list says so.",
    )
    listing.add_argument(
        "--documents",
        action="store_true",
        help="show the refused documents (json and yaml) and the complete reasons, which contain "
        "values of rows. With NAME they are in an annotation of the driver's pod until the pod is "
        "removed, and whoever may read pods can read them; so a continuous run is stopped, and a "
        "short run answers",
    )
    replay = actions.add_parser(
        "replay",
        help="send them again",
        description="Writes the documents of the applied snapshot for the refused rows again. Use "
        "it after the cause in the index was corrected. Exit code 1 when a row is refused again, "
        "3 when a server does not answer.",
    )
    for action, command in ((listing, list_dead_letters), (replay, replay_dead_letters)):
        session.add_target(action, required=False)
        options.add_pipeline(action, required=False)
        options.add_wait(action)
        action.add_argument("--table", action="append", help="only of this table; repeatable")
        action.add_argument("--id", action="append", help="only of this document; repeatable")
        options.add_verbose(action)
        action.set_defaults(command=command)


def list_dead_letters(arguments: argparse.Namespace) -> int:
    """Carry out `icdc dead-letters list`; return the exit code."""
    details = {"documents": arguments.documents}
    answer = _ask(arguments, RunMode.DEAD_LETTERS, RunKind.DEAD_LETTERS, details)
    return _show(answer, arguments, answer_tables.format_dead_letters)


def replay_dead_letters(arguments: argparse.Namespace) -> int:
    """Carry out `icdc dead-letters replay`; return the exit code."""
    answer = _ask(arguments, RunMode.REPLAY, RunKind.REPLAY, {})
    return _show(answer, arguments, answer_tables.format_replay)


def _ask(
    arguments: argparse.Namespace, mode: RunMode, kind: AskedKind, details: dict[str, Any]
) -> dict[str, Any] | Failure:
    """Return the answer, from a run on this host or in a cluster, or why there is none.

    `mode` and `kind` are one question in two vocabularies: of requests and of annotations.
    """
    ids = arguments.id
    if plan_verify.is_of_file(arguments, "dead-letters"):
        # Here and not above, as in `plan_verify`: each brings what the other way does without.
        from icdc_cli.local import resource

        local = resource.load(arguments.filename)
        options.check_tables(arguments.table or (), local.pipeline.spec, source=str(local.source))
        return plan_verify.ask_locally(
            local, arguments, mode, only=arguments.table, ids=ids, **details
        )
    # A file's request is a file and takes any number; an annotation shares 256 KiB with others.
    if ids is not None and len(ids) > MAX_ASKED_IDS:
        raise BadSpec(
            f"--id: for a pipeline in a cluster at most {MAX_ASKED_IDS} are allowed at a time"
        )
    from icdc_cli.cluster import asking

    return asking.ask(arguments, kind, tables=arguments.table, ids=ids, **details).answer


def _show(
    answer: dict[str, Any] | Failure,
    arguments: argparse.Namespace,
    text: Callable[[Mapping[str, Any]], str],
) -> int:
    def is_bad(table: Mapping[str, Any]) -> bool:
        # `left` counts what was refused again; a list has none, and refused rows in it are no
        # failure of the command.
        entry = fill(ReplayEntry, table)
        return bool(entry["reason"] or entry["left"])

    return plan_verify.show_answer(answer, arguments, text, is_bad)
