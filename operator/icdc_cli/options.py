"""Options that several commands share, and what they stand for.

Names and meanings are the contract with users and scripts.
"""

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from icdc_api.errors import BadSpec
from icdc_cli.local.state_dir import STATE_HOME

if TYPE_CHECKING:
    # Only for its type: building the models of a spec takes most of the time of `icdc --help`.
    from icdc_api.spec.pipeline import PipelineSpec

WAIT_SECONDS = 600
"""How long to wait for the answer of a cluster unless --wait says otherwise."""


Choice = TypeVar("Choice", bound=StrEnum)


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
        type=choice_of(Output),
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


def choice_of(values: type[Choice]) -> Callable[[str], Choice]:
    """Return the `type` of an option that takes one of `values`, in whatever case it is typed."""
    # Not argparse's `choices`: with an enum its message shows Python's way of writing the values.
    by_name = {value.value.lower(): value for value in values}

    def parse(text: str) -> Choice:
        if text.lower() not in by_name:
            allowed = ", ".join(value.value for value in values)
            raise argparse.ArgumentTypeError(
                f"{text!r} is not one of {allowed}{_near(text, by_name)}"
            )
        return by_name[text.lower()]

    return parse


class Parser(argparse.ArgumentParser):
    """A parser that says which command was probably meant by one that does not exist."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # argparse has no public place for this: its own message lists all the commands.
        if action.choices is not None and value not in action.choices:
            names = [str(name) for name in action.choices]
            message = f"{value!r} is not one of {', '.join(names)}{_near(str(value), names)}"
            raise argparse.ArgumentError(action, message)


def _near(text: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(text.lower(), list(names), n=1)
    return f"; did you mean {near[0]}?" if near else ""


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
