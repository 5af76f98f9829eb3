"""Entry of `icdc`, also as `kubectl icdc`: picks the command, turns errors into exit codes.

Why one entry for local runs and for questions to a cluster: both speak of the same resource, take
the same options and end with the same codes, so a script need not know where a pipeline runs.
Commands add themselves by `add_parser` and set `command`, a function from arguments to a code.
What they need is imported when they run: kubectl starts this program anew for each call, and
`kubectl icdc status` shall not wait for the imports of `icdc run`.

    raised                    standard error                     exit code
    IcdcError                 icdc: <its message>                exits.choose_for_error
    KeyboardInterrupt         icdc: interrupted                  130
    Terminated                icdc: ended by SIGTERM             143
    output that is lost       see `streams`                      141, 3
    anything else             icdc: this is a defect of icdc: …  1
    SystemExit of argparse    usage and a hint                   2

As the root of its process it catches everything (tests/unit/tools/test_broad_excepts.py).
"""

import argparse
import sys
import traceback
from collections.abc import Sequence

from icdc_api.errors import IcdcError
from icdc_cli import exits, options, streams, terminal
from icdc_cli.cluster import change, logs, status
from icdc_cli.commands import (
    completion,
    crd,
    dead_letters,
    demo,
    doctor,
    explain,
    plan_verify,
    preview,
    report,
    run,
    version,
)
from icdc_cli.commands.data_prepper import convert
from icdc_cli.commands.ui import ui_command as ui
from icdc_cli.exits import Exit
from icdc_cli.local.termination import Terminated

# In the order of `icdc --help`: first what works on a file alone, the demo last.
_COMMANDS = (
    run.add_parser,
    plan_verify.add_plan_parser,
    plan_verify.add_verify_parser,
    preview.add_parser,
    dead_letters.add_parser,
    status.add_parser,
    ui.add_parser,
    change.add_pause_parser,
    change.add_resume_parser,
    change.add_restart_parser,
    change.add_resync_parser,
    change.add_rollback_parser,
    logs.add_parser,
    doctor.add_parser,
    report.add_parser,
    explain.add_parser,
    crd.add_parser,
    convert.add_parser,
    version.add_parser,
    completion.add_parser,
    demo.add_parser,
)


def build_parser() -> argparse.ArgumentParser:
    """Build the command line of all commands."""
    root: argparse.ArgumentParser = options.Parser(
        prog="icdc", description="Keeps OpenSearch indices equal to Apache Iceberg tables."
    )
    root.add_argument("--version", action=version.VersionOption)
    # Typed by its base, which is what the commands take.
    commands: argparse._SubParsersAction[argparse.ArgumentParser] = root.add_subparsers(
        metavar="COMMAND", required=True
    )
    for add in _COMMANDS:
        add(commands)
    return root


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code. Errors are one or two sentences on standard error."""
    return streams.guard(lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> int:
    # Outside of the try: argparse ends the process by itself, with 2 for bad usage and 0 for
    # --help. Also, no error could be printed as -v asks before the arguments are known.
    parser = build_parser()
    try:
        arguments = parser.parse_args(argv)
    except version.VersionAsked:
        arguments = parser.parse_args(["version"])
    try:
        return int(arguments.command(arguments))
    except IcdcError as error:
        _print_error(error.message, arguments.verbose)
        return exits.choose_for_error(error)
    # No Exception but a BaseException, so the clause below would let it through with a traceback.
    # It comes from commands that only wait; `icdc run` takes SIGINT as a request to stop.
    except Terminated:
        _print_error("ended by SIGTERM", arguments.verbose)
        return Exit.TERMINATED
    except KeyboardInterrupt:
        _print_error("interrupted", arguments.verbose)
        return Exit.INTERRUPTED
    except Exception as error:
        if streams.is_lost_output(error):
            raise  # to `guard`: no defect of ours
        # Its class last: it says nothing to a person, but is how an issue is found.
        defect = "this is a defect of icdc: call it again with -v, and open an issue with all of it"
        _print_error(f"{defect} ({type(error).__name__}: {error})", arguments.verbose)
        return Exit.STALLED


def complete() -> int:
    """Answer a key of Tab, as the program `kubectl_complete-icdc`; return 0."""
    try:
        answer = completion.answer(build_parser(), sys.argv[1:])
    except Exception:  # noqa: BLE001 - the root of a process; a traceback would stand in the prompt
        answer = completion.NOTHING
    return streams.guard(lambda: _print(answer))


def _print(text: str) -> int:
    sys.stdout.write(text)
    return Exit.DONE


def _print_error(message: str, verbose: bool) -> None:
    """Write the message to standard error, with a traceback before it where -v was given.

    Only inside an `except` clause: `format_exc` shows the error that is being handled.
    """
    if verbose:
        # First, so that the sentence for people is the last line on the screen.
        sys.stderr.write(terminal.make_printable(traceback.format_exc()))
    terminal.complain(message)


if __name__ == "__main__":
    raise SystemExit(main())
