"""`icdc run`: the pipeline on this host, until it is caught up or for as long as it is wanted.

For people who have no cluster, or want to see what a pipeline does before it gets one. This module
decides the order in which things are taken and given back; `local` does the work:

    1  read and check PIPELINE.yaml        nothing is started for a wrong one
    2  find the Secrets that it names      no JVM runs for minutes to find one missing
    3  lock the state directory            a second `icdc run` ends here
    4  find JDK and jars, start the node   a node only where `hosts` says `embedded`
    5  run, with signals as requests       the status is durable after every step
    6  print the status, choose the code   after the live view has left the screen

Everything is given back in the reverse order, also after an error: the node ends before the lock
is free, so that the next runner does not meet its data folder in use.
"""

import argparse
import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from icdc_cli import exits, options, terminal
from icdc_cli.options import Output
from icdc_cli.tables import text_tables


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "run",
        help="run a pipeline on this host",
        description="Exports and follows the tables of a pipeline with Spark on this host. "
        "Ctrl-C lets the current batch finish; twice ends at once. Progress is retained.",
    )
    options.add_pipeline(parser)
    parser.add_argument(
        "--once",
        action="store_true",
        help="end when every table is caught up, complete or stalled",
    )
    options.add_keep(parser)
    options.add_verbose(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry out the command; return the exit code."""
    # Here and not above: a laptop that only asks a cluster has neither rich nor Spark.
    from icdc_cli.local import application

    # Before `live`, which needs rich: without it a person would get an ImportError for an answer.
    application.require_spark()
    from icdc_cli import live
    from icdc_cli.local import host, resource
    from icdc_cli.local.runner import LocalRunner
    from icdc_cli.local.runs import LocalRuns

    local = resource.load(arguments.filename)
    secrets_dir = host.choose_secrets_dir(arguments.secrets_dir, local)
    with contextlib.ExitStack() as stack:
        state = stack.enter_context(host.choose_state_dir(arguments.state_dir, local))
        resource.recall(state, local)  # refuses a directory before anything is started in it
        # Before the node: without a JDK for Spark there is no use in starting OpenSearch first.
        spark = application.find_installed(local.pipeline.spec)
        local = stack.enter_context(host.with_node(local, state, keep=arguments.keep))
        view = live.choose_view(quiet=arguments.output != Output.TEXT)
        runner = LocalRunner(
            local,
            state,
            LocalRuns(state.runs_path, spark),
            once=arguments.once,
            secrets_dir=secrets_dir,
            watcher=view.show,
        )
        # Signals are taken over for the loop alone. While jars are fetched or a node starts, Ctrl-C
        # raises KeyboardInterrupt, which the stack answers by ending the node.
        with state.explain_errors(), view, _stop_by_signal(runner.stop):
            status = runner.run()
    if arguments.output == Output.TEXT:
        terminal.say(
            text_tables.format_overview(status.tables, hint="--output json shows every table")
        )
    else:
        # With placeholders as written: what is printed may end in a log that others read.
        options.write(runner.resource, arguments.output)
    code, message = (exits.choose_for_end if arguments.once else exits.choose_for_status)(status)
    if message:
        terminal.complain(message)
    return code


@contextlib.contextmanager
def _stop_by_signal(stop: Callable[[], None]) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the run, not the process, within the context.

    The application does not get Ctrl-C from the terminal, as it has a session of its own; the
    runner asks it to end, waits, and saves what it reported. The second signal ends it at once.
    """

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop()

    before: dict[signal.Signals, Any] = {
        number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        # Printing the result may block on a pipe, and must be interruptible as usual.
        for number, handler in before.items():
            signal.signal(number, handler)
