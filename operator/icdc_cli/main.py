"""Entry of `icdc`, also as `kubectl icdc`: picks the command, turns errors into exit codes.

As the root of its process it catches everything (tests/unit/tools/test_broad_excepts.py).
"""

import argparse
import sys
import traceback
from collections.abc import Sequence

from icdc_api.errors import IcdcError
from icdc_cli import exits, options
from icdc_cli.cluster import change, logs, status
from icdc_cli.commands import crd, dead_letters, demo, questions, run
from icdc_cli.exits import Exit

_COMMANDS = (
    run.add_parser,
    questions.add_plan_parser,
    questions.add_verify_parser,
    dead_letters.add_parser,
    status.add_parser,
    change.add_pause_parser,
    change.add_resume_parser,
    change.add_resync_parser,
    logs.add_parser,
    crd.add_parser,
    demo.add_parser,
)


def parser() -> argparse.ArgumentParser:
    """Build the command line of all commands."""
    root: argparse.ArgumentParser = options.Parser(
        prog="icdc", description="Keeps OpenSearch indices equal to Apache Iceberg tables."
    )
    # Typed by its base, which is what the commands take.
    commands: argparse._SubParsersAction[argparse.ArgumentParser] = root.add_subparsers(
        metavar="COMMAND", required=True
    )
    for add in _COMMANDS:
        add(commands)
    return root


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code. Errors are one or two sentences on standard error."""
    arguments = parser().parse_args(argv)
    try:
        return int(arguments.command(arguments))
    except IcdcError as error:
        _print_error(error.message, arguments.verbose)
        return exits.of_error(error)
    except KeyboardInterrupt:
        _print_error("interrupted", arguments.verbose)
        return Exit.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the root of a process; a traceback only on request
        _print_error(f"internal error: {type(error).__name__}: {error}; try -v", arguments.verbose)
        return Exit.STALLED


def _print_error(message: str, verbose: bool) -> None:
    if verbose:
        traceback.print_exc()
    sys.stderr.write(f"icdc: {message}\n")


if __name__ == "__main__":
    raise SystemExit(main())
