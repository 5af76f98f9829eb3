"""Options that several commands share, and what they stand for.

Names and meanings are the contract with users and scripts, so each is spelled here once: two
commands in which `--wait` counted in other units would be found out only by those who use both.
Values are checked while they are parsed, where argparse can name the option in its message and
exit with 2, before anything is started or asked.

Must import nothing large: every call of `icdc` reads this module, `--help` included.
"""

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from icdc_api.errors import BadSpec
from icdc_cli import terminal
from icdc_cli.local.state_dir import STATE_HOME

if TYPE_CHECKING:
    # Only for its type: building the models of a spec takes most of the time of `icdc --help`.
    from icdc_api.spec.pipeline import PipelineSpec

WAIT_SECONDS = 600
"""How long to wait for the answer of a cluster unless --wait says otherwise: an operator first lets
the batch of an active run finish, and a driver's pod has to be scheduled and to start a JVM."""


MAX_NAMED = 10
"""Tables that a message names; the others are counted."""

Choice = TypeVar("Choice", bound=StrEnum)


_SYNONYMS = {
    **dict.fromkeys(("get", "list", "ls", "describe", "show"), "status"),
    **dict.fromkeys(("stop", "suspend", "disable"), "pause"),
    **dict.fromkeys(("start", "unsuspend", "continue", "enable"), "resume"),
    **dict.fromkeys(("apply", "create", "exec"), "run"),
    **dict.fromkeys(("diff", "compare", "check"), "verify"),
}
"""Commands of kubectl and others, with ours that does the nearest."""


_CLUSTER_OPTIONS = {
    "namespace": "-n",
    "context": "--context",
    "kubeconfig": "--kubeconfig",
    "wait": "--wait",
}
"""By the name of the argument, options that mean nothing where a file is asked about."""


class Output(StrEnum):
    """What a command writes to standard output."""

    TEXT = "text"
    """Tables for people; no program should read them, as columns and words may change."""
    JSON = "json"
    """One document, whose fields are those of the API."""
    YAML = "yaml"
    """The same document as `kubectl get -o yaml` would print it."""


class OnePipeline(argparse.Action):
    """Takes the file of a pipeline; a second one would silently take the place of the first."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        _option: str | None = None,
    ) -> None:
        """Store the path, or refuse it."""
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "one pipeline at a time: call icdc for each file")
        setattr(namespace, self.dest, values)


def add_pipeline(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add `-f`, `--state-dir`, `--secrets-dir` and `--output`.

    `required` is False for commands that take either `-f` or the NAME of a pipeline in a cluster;
    `plan_verify.is_of_file` sees to that, and can say what the two stand for.
    """
    parser.add_argument(
        "-f",
        "--filename",
        action=OnePipeline,
        type=Path,
        required=required,
        metavar="PIPELINE.yaml",
        help="the pipeline, - for standard input; ${ENV} in its property values is replaced",
    )
    parser.add_argument(
        "--state-dir",
        type=Path,
        metavar="DIR",
        help="where status, logs and the embedded node are stored "
        f"(default: {STATE_HOME}/<namespace>-<name>)",
    )
    parser.add_argument(
        "--secrets-dir",
        type=Path,
        metavar="DIR",
        help="Secrets that the pipeline names, as files DIR/<secret>/<key>",
    )
    add_output(parser)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add `--output`."""
    parser.add_argument(
        "--output",
        "-o",
        type=build_choice_type(Output),
        default=Output.TEXT,
        metavar="{text,json,yaml}",
        help="text for people, json or yaml for programs (default: text)",
    )


def add_verbose(parser: argparse.ArgumentParser) -> None:
    """Add `-v`.

    Every command has it, as `main` reads `arguments.verbose` of whichever command has failed. It is
    no option of the root: argparse would then take it before the command alone.
    """
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="say more, and show tracebacks of errors"
    )


def add_keep(parser: argparse.ArgumentParser) -> None:
    """Add `--keep`."""
    parser.add_argument(
        "--keep", action="store_true", help="leave the embedded OpenSearch node running at the end"
    )


def add_wait(parser: argparse.ArgumentParser) -> None:
    """Add `--wait`; None stands for WAIT_SECONDS, so that `refuse_cluster_options` sees it."""
    parser.add_argument(
        "--wait",
        type=build_number_type(1),
        metavar="SECONDS",
        help="how long to wait for the answer from a cluster, which may have to wait itself for "
        f"the end of the active run (default: {WAIT_SECONDS})",
    )


def refuse_cluster_options(arguments: argparse.Namespace) -> None:
    """Raise BadSpec for an option that chooses or asks a cluster: a file was given by `-f`."""
    # Refused and not passed over: somebody who gives a context believes that a cluster is asked.
    for option, flag in _CLUSTER_OPTIONS.items():
        if getattr(arguments, option, None) is not None:
            raise BadSpec(f"{flag} is not allowed with -f, which asks no cluster; give NAME, or -f")


def build_choice_type(values: type[Choice]) -> Callable[[str], Choice]:
    """Return the `type` of an option that takes one of `values`, in whatever case it is typed.

    For `ResyncMode`: `verify` and `VERIFY` give `ResyncMode.VERIFY`; `verfy` is refused as "'verfy'
    is not one of Export, Verify, Repair; did you mean verify?".
    """
    # Not argparse's `choices`: with an enum its message shows Python's way of writing the values.
    by_name = {value.value.lower(): value for value in values}

    def parse(text: str) -> Choice:
        if text.lower() not in by_name:
            allowed = ", ".join(value.value for value in values)
            # argparse prints the text of this error alone; of a ValueError it would make "invalid
            # parse value", by the name of this function.
            raise argparse.ArgumentTypeError(
                f"{text!r} is not one of {allowed}{suggest_name(text, by_name)}"
            )
        return by_name[text.lower()]

    return parse


class Parser(argparse.ArgumentParser):
    """A parser that says which command or option was probably meant by one that does not exist."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse `args`; end the process with 2 for what is not known, as `parse_args` does."""
        # Here and not in `parse_args`, which only the root has called: its message would have the
        # usage of all commands, and it does not know the options of this one.
        given = sys.argv[1:] if args is None else args
        options = [option for action in self._actions for option in action.option_strings]
        first = given[0].partition("=")[0] if given else ""
        if self._subparsers and first[:1] == "-" and not any(o.startswith(first) for o in options):
            # Otherwise its value would be taken for the command, and that is what would be refused.
            self.error(f"{first!r} stands behind the command: {self.prog} COMMAND {first}")
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._describe_unknown(unknown))
        return parsed, unknown

    def _describe_unknown(self, unknown: Sequence[str]) -> str:
        first = next((word for word in unknown if word.startswith("-")), None)
        if first is None:
            return f"{unknown[0]!r} is one argument too many"
        name = first.partition("=")[0]
        options = [option for action in self._actions for option in action.option_strings]
        # A flag of one letter is near to every other one.
        near = suggest_name(name, options) if name.startswith("--") else ""
        return f"{name!r} is no option of {self.prog}{near}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # argparse has no public place for this: its own message lists all the commands.
        if action.choices is not None and value not in action.choices:
            names = [str(name) for name in action.choices]
            message = f"{value!r} is not one of {', '.join(names)}{suggest_name(str(value), names)}"
            raise argparse.ArgumentError(action, message)


def suggest_name(text: str, names: Iterable[str]) -> str:
    """Return what to add to a refusal of `text`: the nearest of `names`, or nothing if none is
    near."""
    choices = list(names)
    near = difflib.get_close_matches(text.lower(), choices, n=1)
    if not near and (synonym := _SYNONYMS.get(text.lower())) in choices:
        near = [str(synonym)]
    return f"; did you mean {near[0]}?" if near else ""


def build_number_type(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return the `type` of an option that takes whole numbers from `least`, 0 or more, to `most`.

    `most` None: there is no upper bound.
    """
    allowed = f"of {least} or more" if most is None else f"from {least} to {most}"

    def parse(text: str) -> int:
        # Not by `int` alone, which takes "1_000", " 7" and a minus as well.
        if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {allowed}")
        return int(text)

    return parse


def check_tables(names: Iterable[str], spec: "PipelineSpec", *, source: str) -> None:
    """Raise BadSpec for a `--table` that the pipeline in `source` does not have.

    Before anything starts, as a misspelled name would otherwise cost a whole run to find out.
    """
    tables = [table.name for table in spec.tables]
    for name in names:
        if name not in tables:
            raise BadSpec(f"--table {name}: {source} {describe_missing(name, tables)}")


def describe_missing(name: str, tables: Sequence[str]) -> str:
    """Return that there is no table `name`, which tables there are, and which was meant."""
    rest = len(tables) - MAX_NAMED
    more = f" and {rest} more" if rest > 0 else ""
    near = suggest_name(name, tables)
    return f"has no such table; it has {', '.join(tables[:MAX_NAMED])}{more}{near}"


def write(value: dict[str, Any], output: Output) -> None:
    """Write `value` to standard output, in the form that programs read.

    Only the answer goes there, and all else to standard error, so that `icdc … -o json | jq` works.
    """
    # Escapes of JSON and YAML where characters cannot be encoded: those of Python are other text.
    unicode = terminal.takes_unicode(sys.stdout)
    if output == Output.YAML:
        # Here and not above: text and JSON do without it.
        import yaml

        # In the order in which fields were written, which is for readers: names stand before
        # numbers. And with text in any script as it is, not as escapes.
        yaml.safe_dump(value, sys.stdout, sort_keys=False, allow_unicode=unicode)
    else:
        text = json.dumps(value, indent=2, ensure_ascii=not unicode)
        # JSON escapes the control characters below the space by itself, YAML all of them.
        sys.stdout.write(terminal.CONTROL.sub(lambda m: f"\\u{ord(m[0]):04x}", text) + "\n")
