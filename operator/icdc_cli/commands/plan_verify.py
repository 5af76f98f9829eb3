"""`icdc plan` and `icdc verify`: one question to the application, and its answer as text or data.

One module for both ways of asking, so that a person reads the same table and a script gets the same
code whether the pipeline is a file or in a cluster:

                       icdc plan -f shop.yaml            icdc plan shop -n sales
    who answers        Spark on this host                a run in the cluster
    needs here         JDK, pyspark, jars                a kubeconfig
    credentials        from --secrets-dir and ${ENV}     those of the driver
    answer             dict or Failure                   dict or Failure

Of a file Spark runs on this host. It reads the state document and needs no state directory, unless
the node is embedded in one. Of a pipeline in a cluster a run in the cluster answers.
"""

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from icdc_api.errors import BadSpec
from icdc_api.job.answers import ComparisonEntry, RunAnswer, fill
from icdc_api.job.modes import RunMode
from icdc_api.status.runs import Failure, RunKind
from icdc_cli import exits, options, terminal
from icdc_cli.cluster import session
from icdc_cli.exits import Exit
from icdc_cli.options import Output
from icdc_cli.tables import answer_tables

if TYPE_CHECKING:
    from icdc_cli.local.resource import LocalPipeline


def add_plan_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `icdc plan` to the command line."""
    parser = commands.add_parser(
        "plan",
        help="say what the next run would do, and change nothing",
        description="Says for each table what the next run would do: the snapshots, files, rows, "
        "bytes and mapping changes, and about how much CPU and time they take, beside those of an "
        "export instead. Changes nothing. For a pipeline in a cluster (NAME), it first says what "
        "the operator does next; a run in the cluster answers the rest, and a continuous "
        "run does so without stopping.",
    )
    session.add_target(parser, required=False)
    options.add_pipeline(parser, required=False)
    options.add_wait(parser)
    options.add_verbose(parser)
    parser.set_defaults(command=plan)


def add_verify_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `icdc verify` to the command line."""
    parser = commands.add_parser(
        "verify",
        help="compare index and table",
        description="Compares each index with its table at the applied snapshot, and names what "
        "is missing, extra or different. Exit code 1 when anything is, 3 where a batch under way "
        "or a server that does not answer leaves it open. Rows that the index refused are counted "
        "apart, and are no difference. For a pipeline in a cluster (NAME), a run in the cluster "
        "compares. Meanwhile its tables are not followed; in a continuous run each table waits "
        "only for its own comparison.",
    )
    session.add_target(parser, required=False)
    options.add_pipeline(parser, required=False)
    options.add_wait(parser)
    parser.add_argument(
        "--repair",
        action="store_true",
        help="also correct the documents that differ, and nothing else",
    )
    options.add_verbose(parser)
    parser.set_defaults(command=verify)


def plan(arguments: argparse.Namespace) -> int:
    """Carry out `icdc plan`; return the exit code."""
    if is_of_file(arguments, "plan"):
        return _ask(arguments, RunMode.PLAN, answer_tables.format_plan)
    # Here and not above: it brings the models of a spec, which `icdc status` can do without.
    from icdc_cli.cluster import asking

    reply = asking.ask(arguments, RunKind.PLAN)
    answer = reply.answer
    if arguments.output == Output.TEXT:
        terminal.say(f"The operator: {reply.next_step}")
        # Before an error of the run may go to standard error, which is not buffered: in a file
        # with both the order would be the wrong way round.
        sys.stdout.flush()
    elif not isinstance(answer, Failure):
        # First, since dictionaries keep their order and it is what a reader looks for.
        answer = {"operator": reply.next_step, **answer}
    return _show_tables(answer, arguments, RunMode.PLAN, answer_tables.format_plan)


def verify(arguments: argparse.Namespace) -> int:
    """Carry out `icdc verify`; return the exit code."""
    mode = RunMode.REPAIR if arguments.repair else RunMode.VERIFY
    if is_of_file(arguments, "verify"):
        return _ask(arguments, mode, answer_tables.format_comparison)
    # Here and not above, as in `plan`.
    from icdc_cli.cluster import asking

    reply = asking.ask(arguments, RunKind.REPAIR if arguments.repair else RunKind.VERIFY)
    return _show_tables(reply.answer, arguments, mode, answer_tables.format_comparison)


def is_of_file(
    arguments: argparse.Namespace,
    command: str,
    *,
    file_options: Iterable[str] = ("secrets_dir", "state_dir"),
) -> bool:
    """Return whether a file is asked about, not a pipeline in a cluster.

    BadSpec for both or none, for `file_options` with a pipeline in a cluster, which has no use for
    them, and for options of a cluster with a file.
    """
    # Not by a group of argparse, whose message lists the names and not what they stand for.
    if (arguments.name is None) == (arguments.filename is None):
        raise BadSpec(f"{command}: give either NAME, a pipeline in a cluster, or -f PIPELINE.yaml")
    if arguments.name is None:
        options.refuse_cluster_options(arguments)
        return True
    # Refused and not passed over: somebody who gives Secrets believes that they are used.
    for option in file_options:
        if getattr(arguments, option) is not None:
            flag = option.replace("_", "-")
            raise BadSpec(
                f"--{flag} is allowed only with -f; a pipeline in a cluster uses its own Secrets "
                "and state"
            )
    return False


def _ask(
    arguments: argparse.Namespace, mode: RunMode, text: Callable[[Mapping[str, Any]], str]
) -> int:
    # Here and not above: they bring the models of a spec, as `asking` does.
    from icdc_api.spec.cautions import find_cautions
    from icdc_cli.local import resource

    local = resource.load(arguments.filename)
    # In a cluster the condition SpecValid says the same; a file has nobody else to say it.
    for caution in find_cautions(local.pipeline.spec):
        terminal.complain(caution)
    return _show_tables(ask_locally(local, arguments, mode), arguments, mode, text)


def ask_locally(
    local: "LocalPipeline", arguments: argparse.Namespace, mode: RunMode, **details: Any
) -> dict[str, Any] | Failure:
    """Ask the application on this host; `details` are further fields of its request.

    Return the result, or the failure of the run. Raises BadSpec and Submission for what is missing
    before a run can start: a Secret, a JDK, jars, the state directory of an embedded node.
    """
    # Here and not above: they bring what starts Spark and a node, which no cluster needs here.
    from icdc_cli.local import application, host
    from icdc_cli.local.ask import ask
    from icdc_cli.local.termination import raise_on_sigterm

    secrets_dir = host.choose_secrets_dir(arguments.secrets_dir, local)
    with contextlib.ExitStack() as stack:
        stack.enter_context(raise_on_sigterm())
        spark = application.find_installed(local.pipeline.spec)
        state = host.choose_state_dir(arguments.state_dir, local)
        local = stack.enter_context(host.with_node_to_ask(local, state))
        return ask(local, mode, application=spark, secrets_dir=secrets_dir, **details)


def show_answer(
    answer: dict[str, Any] | Failure,
    arguments: argparse.Namespace,
    text: Callable[[Mapping[str, Any]], str],
    is_bad: Callable[[Mapping[str, Any]], bool],
) -> int:
    """Print the answer; return the exit code: 1 where `is_bad` says so of a table, or without any.

    3 where each such table only met what may pass by itself.

    `text` renders an answer for people. A Failure goes to standard error and leaves standard output
    empty, so that a program which parses the answer reads either all of it or nothing.
    """
    if isinstance(answer, Failure):
        terminal.complain(f"{answer.failure_class.value}: {answer.message}")
        return exits.choose_for_failure(answer)
    if arguments.output == Output.TEXT:
        terminal.say(text(answer))
    else:
        options.write(answer, arguments.output)
    tables = fill(RunAnswer, answer)["tables"]
    if not tables:
        # Nothing that was compared is not the same as nothing that differs.
        terminal.complain("no table has answered: read the log of the run's driver, and ask again")
        return Exit.STALLED
    bad = [table for table in tables if is_bad(table)]
    # A script that calls a person must not call one for what may pass by itself.
    if bad and all(exits.may_pass(table.get("reason")) for table in bad):
        return Exit.OUTLASTED
    return Exit.STALLED if bad else Exit.DONE


def _show_tables(
    answer: dict[str, Any] | Failure,
    arguments: argparse.Namespace,
    mode: RunMode,
    text: Callable[[Mapping[str, Any]], str],
) -> int:
    """Print the answer; a table is bad without one, or when a comparison found differences."""
    # `plan` has no field `equal`, and would else end with 1 for every table.
    compared = mode in (RunMode.VERIFY, RunMode.REPAIR)

    def is_bad(table: Mapping[str, Any]) -> bool:
        entry = fill(ComparisonEntry, table)
        return bool(entry["reason"]) or (compared and not entry["equal"])

    return show_answer(answer, arguments, text, is_bad)
