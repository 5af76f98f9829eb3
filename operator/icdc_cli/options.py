"""Options that several commands share, and what they stand for.

Names and meanings are the contract with users and scripts.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icdc_api.errors import BadSpec
from icdc_cli.local.state_dir import STATE_HOME

if TYPE_CHECKING:
    # Only for its type: building the models of a spec takes most of the time of `icdc --help`.
    from icdc_api.spec import PipelineSpec

WAIT_SECONDS = 600
"""How long to wait for the answer of a cluster unless --wait says otherwise."""


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


def add_wait(parser: argparse.ArgumentParser) -> None:
    """Add `--wait`."""
    parser.add_argument(
        "--wait",
        type=number_from(1),
        default=WAIT_SECONDS,
        metavar="SECONDS",
        help="how long to wait for the answer from a cluster, which may have to wait itself for "
        f"the end of the active run (default: {WAIT_SECONDS})",
    )


def number_from(least: int) -> Callable[[str], int]:
    """Return the `type` of an option that takes whole numbers from `least` on."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
        return int(text)

    return parse


def check_tables(names: Iterable[str], spec: "PipelineSpec", *, source: str) -> None:
    """Raise BadSpec for a `--table` that the pipeline in `source` does not have."""
    tables = [table.name for table in spec.tables]
    for name in names:
        if name not in tables:
            raise BadSpec(f"--table {name}: {source} has no such table: {', '.join(tables)}")


def write(value: dict[str, Any], output: Output) -> None:
    """`value` to standard output, in the form that programs read."""
    if output == Output.YAML:
        import yaml

        yaml.safe_dump(value, sys.stdout, sort_keys=False, allow_unicode=True)
    else:
        sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
