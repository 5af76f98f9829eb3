"""Options that several commands share, and what they stand for.

Names and meanings are the contract with users and scripts.
"""

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from icdc_api.errors import BadSpec
from icdc_api.spec import PipelineSpec
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_cli.local.resource import LocalPipeline
from icdc_cli.local.secrets import check_secrets
from icdc_cli.local.state_dir import StateDir

STATE_HOME = Path(".icdc")
"""Below the working directory; holds one state directory for each pipeline."""


class Output(StrEnum):
    """What a command writes to standard output."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


def add_pipeline(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """`-f`, `--state-dir`, `--secrets-dir`, `--output`."""
    parser.add_argument(
        "-f",
        "--filename",
        type=Path,
        required=required,
        metavar="PIPELINE.yaml",
        help="the pipeline; ${ENV} in its property values is replaced",
    )
    parser.add_argument(
        "--state-dir",
        type=Path,
        metavar="DIR",
        help="where status, logs and the embedded node are kept "
        f"(default: {STATE_HOME}/<namespace>-<name>)",
    )
    parser.add_argument(
        "--secrets-dir",
        type=Path,
        metavar="DIR",
        help="Secrets that the pipeline names, as files DIR/<secret>/<key>",
    )
    parser.add_argument(
        "--output",
        "-o",
        type=Output,
        choices=list(Output),
        default=Output.TEXT,
        metavar="{text,json,yaml}",
        help="text for people, json or yaml for programs (default: text)",
    )


def add_verbose(parser: argparse.ArgumentParser) -> None:
    """`-v`."""
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="say more, and show tracebacks of errors"
    )


def add_keep(parser: argparse.ArgumentParser) -> None:
    """`--keep`."""
    parser.add_argument(
        "--keep", action="store_true", help="leave the embedded OpenSearch node running at the end"
    )


def number_from(least: int) -> Callable[[str], int]:
    """Return the `type` of an option that takes whole numbers from `least` on."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
        return int(text)

    return parse


def check_tables(names: Iterable[str], spec: PipelineSpec, *, source: str) -> None:
    """Raise BadSpec for a `--table` that the pipeline in `source` does not have."""
    tables = [table.name for table in spec.tables]
    for name in names:
        if name not in tables:
            raise BadSpec(f"--table {name}: {source} has no such table: {', '.join(tables)}")


def state_dir(given: Path | None, local: LocalPipeline) -> StateDir:
    """The state directory that was named, or the pipeline's own."""
    return StateDir(STATE_HOME / local.key if given is None else given)


def secrets_dir(given: Path | None, local: LocalPipeline) -> Path | None:
    """The directory, absolute because the application runs elsewhere; BadSpec if it lacks a Secret
    that the pipeline names."""
    found = None if given is None else given.resolve()
    check_secrets(local, found)
    return found


@contextlib.contextmanager
def with_node(local: LocalPipeline, state: StateDir, *, keep: bool) -> Iterator[LocalPipeline]:
    """The pipeline with a real host: that of a node under `state` where it says `embedded`."""
    if not local.pipeline.spec.sink.opensearch.embedded:
        yield local
        return
    with OpenSearchNode(state.node_path, keep=keep) as node:
        yield local.with_host(node.url)
        if keep:
            sys.stderr.write(f"OpenSearch goes on at {node.url}; stop it: {node.stop_command}\n")


def write(value: dict[str, Any], output: Output) -> None:
    """`value` to standard output, in the form that programs read."""
    if output == Output.YAML:
        yaml.safe_dump(value, sys.stdout, sort_keys=False, allow_unicode=True)
    else:
        sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
