"""`icdc convert`: a pipeline of another program as an IcebergCDCPipeline, on standard output.

The result is valid YAML for `kubectl apply` and `icdc plan -f`. What it cannot express stands above
it as comments, which stay with the file when it is stored.
"""

import argparse
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from icdc_cli import options, terminal
from icdc_cli.exits import Exit

_WIDTH = 100


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "convert",
        help="make a pipeline from one of another program",
        description="Makes an IcebergCDCPipeline from the file of another program.",
    )
    kinds = parser.add_subparsers(metavar="PROGRAM", required=True)
    data_prepper = kinds.add_parser(
        "data-prepper",
        help="from a pipeline of OpenSearch Data Prepper with an iceberg source",
        description="Prints the pipeline as YAML. Options without a counterpart, and steps such as "
        "Secrets to create, stand above it as comments. Exit code 2 for a file that is no such "
        "pipeline. docs/from-data-prepper.md explains each option.",
    )
    data_prepper.add_argument("file", type=Path, metavar="FILE", help="the pipeline's YAML")
    data_prepper.add_argument(
        "--pipeline", metavar="NAME", help="of several pipelines in the file, this one"
    )
    options.add_verbose(data_prepper)
    data_prepper.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    """Carry out the command; return the exit code."""
    # Here and not above: they bring the models of a spec and YAML.
    from icdc_api.base import format_count
    from icdc_api.crd import loading, yaml_text
    from icdc_cli.commands.data_prepper import manifest, pipelines

    source = loading.name_source(arguments.file)
    document = yaml_text.parse_document(
        loading.read_text(arguments.file), source, allowed=pipelines.EXPECTED, as_written=True
    )
    converted = pipelines.convert(document, source=source, wanted=arguments.pipeline)
    head = f"Converted from {source} by icdc convert data-prepper."
    sys.stdout.write("".join(f"# {line}\n" for line in _wrap([head, *converted.notes])))
    manifest.write(converted.resource, sys.stdout)
    if converted.notes:
        sys.stdout.flush()
        remarks = format_count(len(converted.notes), "remark")
        terminal.complain(f"{remarks}: see the comments")
    return Exit.DONE


def _wrap(texts: Sequence[str]) -> list[str]:
    """Return the texts as lines of comments, each text indented from its second line on."""
    return [
        line
        for text in texts
        for line in textwrap.wrap(
            terminal.make_printable(" ".join(text.split())),
            _WIDTH,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
