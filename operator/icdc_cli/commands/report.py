"""`icdc report`: one file to attach to an issue, without what may be a secret.

For people who were asked "which version, which status, which log?": all of it at once, as it was at
one moment. It holds names, addresses and messages of an installation, so the last line says to read
it before it is published.
"""

import argparse

from icdc_cli import options, terminal
from icdc_cli.cluster import session
from icdc_cli.cluster.session import Target
from icdc_cli.exits import Exit

DEFAULT_FILE = "icdc-report.tar.gz"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "report",
        help="collect what an issue needs, without secrets",
        description="Writes versions, the findings of icdc doctor, pipelines with their status, "
        "events, runs and the last lines of logs into one archive. Without NAME: of all pipelines "
        "of the namespace. What may be a secret is replaced by <redacted>.",
    )
    session.add_target(parser, required=False)
    parser.add_argument(
        "-o",
        dest="file",
        default=DEFAULT_FILE,
        metavar="FILE.tar.gz",
        help=f"a new file, or - for standard output (default: {DEFAULT_FILE})",
    )
    options.add_verbose(parser)
    parser.set_defaults(command=session.carry_out(_report))


async def _report(target: Target, arguments: argparse.Namespace) -> Exit:
    # Here and not above: they bring the models of a spec.
    from icdc_cli.doctor.bundle import archive, collection

    files = await collection.collect(target)
    archive.write(archive.pack(files), arguments.file)
    if arguments.file != archive.STDOUT:
        terminal.complain(
            f"{len(files)} files are in {arguments.file}; secrets were replaced, names and "
            "addresses were not: read it before you publish it"
        )
    return Exit.DONE
