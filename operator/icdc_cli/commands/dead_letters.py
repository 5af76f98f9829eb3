"""`icdc dead-letters list` and `replay`: rows that an index refused, and another try for them."""

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any

from icdc_api.errors import BadSpec
from icdc_api.job import RunMode
from icdc_api.runs import Failure
from icdc_cli import exits, options, tables
from icdc_cli.cluster import session
from icdc_cli.commands import questions
from icdc_cli.exits import Exit
from icdc_cli.local import resource
from icdc_cli.options import Output


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Registers the command."""
    parser = commands.add_parser(
        "dead-letters",
        help="show and re-send rows that an index refused",
        description="Rows that an index refused are kept in <index>-dead-letters, and their "
        "documents are not in the index.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    listing = actions.add_parser(
        "list",
        help="show them",
        description="Shows the refused rows of the newest batches by their ids, without values of "
        "rows: a reason is cut before it quotes one.",
    )
    listing.add_argument(
        "--documents",
        action="store_true",
        help="show the refused documents (json and yaml) and whole reasons: they hold values",
    )
    replay = actions.add_parser(
        "replay",
        help="send them again",
        description="Writes the documents of the applied snapshot for the refused rows again, once "
        "the cause was mended in the index. Exit code 1 when one is refused again.",
    )
    for each, command in ((listing, list_letters), (replay, replay_letters)):
        session.add_target(each, required=False)
        options.add_pipeline(each, required=False)
        each.add_argument("--table", action="append", help="of this table alone; may be repeated")
        each.add_argument("--id", action="append", help="of this document; may be repeated")
        options.add_verbose(each)
        each.set_defaults(command=command)


def list_letters(arguments: argparse.Namespace) -> int:
    """Carries out `icdc dead-letters list`; the exit code."""
    answer = _ask(arguments, RunMode.LETTERS, documents=arguments.documents)
    return _tell(answer, arguments, tables.letters_table)


def replay_letters(arguments: argparse.Namespace) -> int:
    """Carries out `icdc dead-letters replay`; the exit code."""
    answer = _ask(arguments, RunMode.REPLAY)
    return _tell(answer, arguments, tables.replay_table)


def _ask(arguments: argparse.Namespace, mode: RunMode, **details: Any) -> dict[str, Any] | Failure:
    if (arguments.name is None) == (arguments.filename is None):
        raise BadSpec("it takes either NAME, a pipeline in a cluster, or -f PIPELINE.yaml")
    if arguments.name is not None:
        raise BadSpec(
            f"dead letters of {arguments.name}, a pipeline in a cluster, cannot be asked for by "
            "name yet: use -f with its manifest and --secrets-dir with its Secrets, on a host that "
            "reaches its catalog and OpenSearch"
        )
    local = resource.load(arguments.filename)
    known = [table.name for table in local.pipeline.spec.tables]
    for name in arguments.table or ():
        if name not in known:
            raise BadSpec(f"--table {name}: {local.source} has no such table: {', '.join(known)}")
    details |= {"only": arguments.table, "ids": arguments.id}
    return questions.answer(local, arguments, mode, **details)


def _tell(
    answer: dict[str, Any] | Failure,
    arguments: argparse.Namespace,
    text: Callable[[Mapping[str, Any]], str],
) -> int:
    if isinstance(answer, Failure):
        sys.stderr.write(f"icdc: {answer.failure_class.value}: {answer.message}\n")
        return exits.of_failure(answer)
    if arguments.output == Output.TEXT:
        sys.stdout.write(text(answer) + "\n")
    else:
        options.write(answer, arguments.output)
    bad = any(table.get("reason") or table.get("left") for table in answer["tables"])
    return Exit.STALLED if bad else Exit.DONE
