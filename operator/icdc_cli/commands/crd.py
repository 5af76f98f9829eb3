"""`icdc crd`: the CustomResourceDefinition, for `kubectl apply -f -`.

For people who have the package and neither chart nor checkout: the CRD is generated from the
models by which this very version checks a pipeline, so what the API server lets pass is what it can
read.
"""

import argparse
import sys

from icdc_cli import options
from icdc_cli.exits import Exit


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "crd",
        help="print the CRD",
        description="Prints the CustomResourceDefinition of IcebergCDCPipeline as YAML.",
    )
    options.add_verbose(parser)
    parser.set_defaults(command=run)


def run(_arguments: argparse.Namespace) -> int:
    """Carry out the command; return the exit code."""
    # Here and not above: it builds the models of all fields.
    from icdc_api.crd import generator

    sys.stdout.write(generator.render())
    return Exit.DONE
