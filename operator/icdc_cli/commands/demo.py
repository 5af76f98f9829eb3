"""`icdc demo`: the options of the demo, whose parts are imported when it runs.

Apart from `icdc_cli.demo`, which imports rich, the node and the lake when it is read: the parser of
`icdc status` must not pay for them, nor fail where the extra `spark` is not installed.
"""

import argparse

from icdc_cli import options


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "demo",
        help="run the demo: three tables, changes, a crash, the proof",
        description="Makes three Iceberg tables, follows them with one pipeline through changes "
        "and a crash, and proves that every index equals its table.",
    )
    options.add_keep(parser)
    options.add_verbose(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry out the command; return 0 when every index equals its table."""
    # Here and not above: the demo brings Spark, a node and rich.
    from icdc_cli.local import application

    application.require_spark()
    from icdc_cli.demo import command

    return command.run(arguments)
