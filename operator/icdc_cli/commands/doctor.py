"""`icdc doctor`: what is wrong with a host or a cluster, and what to do about it.

For people whose pipeline does not start, and who do not know where to begin. Everything that a run
or the operator would fail at is checked ahead, and each finding has its cure. Changes nothing.

    icdc doctor -f shop.yaml    this host: programs, spec, Secrets, catalog, OpenSearch
    icdc doctor                 a cluster: CRD, operators, rights, all pipelines of the namespace
    icdc doctor shop -n sales   the same, for one pipeline
"""

import argparse
from pathlib import Path

from icdc_api.errors import BadSpec
from icdc_cli import options, terminal
from icdc_cli.cluster import session
from icdc_cli.options import Output


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "doctor",
        help="find what is wrong with a host or a cluster",
        description="Checks a cluster, or with -f this host, and says of each finding what to do. "
        "Changes nothing. Exit code 1 with a problem, 2 if the file's spec is wrong, 3 if all "
        "problems are servers that do not answer.",
    )
    session.add_target(parser, required=False)
    parser.add_argument(
        "-f",
        "--filename",
        action=options.OnePipeline,
        type=Path,
        metavar="PIPELINE.yaml",
        help="check this host for the pipeline in a file, not a cluster; - for standard input",
    )
    parser.add_argument(
        "--secrets-dir",
        type=Path,
        metavar="DIR",
        help="Secrets that the pipeline names, as files DIR/<secret>/<key>; only with -f",
    )
    options.add_output(parser)
    options.add_verbose(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry out the command; return the exit code."""
    from icdc_cli.doctor import findings

    if arguments.filename is not None:
        if arguments.name is not None:
            raise BadSpec("doctor: give either NAME, a pipeline in a cluster, or -f PIPELINE.yaml")
        options.refuse_cluster_options(arguments)
        # Here and not above: it brings what a host needs, of which a cluster needs nothing.
        from icdc_cli.doctor.host.host_findings import examine_host

        outcomes = examine_host(arguments.filename, arguments.secrets_dir)
    else:
        if arguments.secrets_dir is not None:
            raise BadSpec("--secrets-dir is allowed only with -f; a cluster has its own Secrets")
        from icdc_cli.doctor.cluster.cluster_findings import examine_cluster

        outcomes = session.run_for(examine_cluster, arguments)
    if arguments.output == Output.TEXT:
        terminal.say(findings.format_findings(outcomes))
    else:
        options.write({"findings": [one.to_document() for one in outcomes]}, arguments.output)
    return findings.choose_exit(outcomes)
