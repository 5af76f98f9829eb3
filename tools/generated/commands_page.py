"""Writes docs/reference/commands.md: every command, option and exit code, from the parsers.

So the page says what `--help` says, and the meaning of each exit code is that of `exits.Exit`.
`--check` fails where the page differs, `--write` writes it (`pages`).
"""

import argparse
import sys
from collections.abc import Iterator

from icdc_cli.exits import Exit
from icdc_cli.explanations import sources
from icdc_cli.main import build_parser
from icdc_operator.cluster import options
from pages import REFERENCE, escape_cell, write_or_check

PAGE = REFERENCE / "commands.md"
_TOP = """\
<!-- Made from the parsers of the commands by `make reference`. Do not edit. -->
# Commands

Each command of `icdc` is also one of `kubectl icdc`. An option that names a value in capitals takes
one. `--option VALUE` and `--option=VALUE` are the same.

## Exit codes
A code never changes its meaning.

| code | meaning |
|---|---|
"""
_HEAD = "\n| argument | what it does |\n|---|---|\n"


def render_page() -> str:
    """Return the whole page: exit codes, the commands in the order of the help, the operator."""
    codes = sources.read_members("icdc_cli", "exits.py", Exit.__name__)
    rows = (f"| {code} | {escape_cell(text)} |\n" for code, text in codes.items())
    commands = _render_commands(build_parser())
    return "".join((_TOP, *rows, *commands, *_render_command(options.build_parser({}))))


def _render_commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the parts of a command and of the commands below it."""
    yield from _render_command(parser)
    for action in parser._actions:
        # argparse has no public way to ask a parser for what it parses.
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _render_commands(below)


def _render_command(parser: argparse.ArgumentParser) -> Iterator[str]:
    actions = [action for action in parser._actions if _is_shown(action)]
    needed = [_name_value(action) for action in actions if not action.option_strings]
    yield f"\n## {parser.prog}\n{escape_cell(parser.description or '')}\n"
    if needed:
        yield f"\n```text\n{parser.prog} {' '.join(needed)}\n```\n"
    if actions:
        yield _HEAD
        yield from (_render_row(action) for action in actions)
    if parser.epilog:
        yield f"\n{escape_cell(parser.epilog)}\n"


def _is_shown(action: argparse.Action) -> bool:
    """Return whether the page has the argument: not `--help`, which all have, nor commands."""
    return not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)


def _render_row(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else _name_value(action)
    names = [f"`{name}`" for name in action.option_strings] or [f"`{value}`"]
    if action.option_strings and value and not isinstance(action, argparse.BooleanOptionalAction):
        names.append(f"`{value}`")
    text = action.help or ""
    if action.option_strings and action.required:
        text += " (required)"
    # A text of our own names the default where people have to know it.
    elif action.default and action.default != argparse.SUPPRESS and "default" not in text:
        text += f" (default: {action.default})"
    return f"| {escape_cell(' '.join(names))} | {escape_cell(text)} |\n"


def _name_value(action: argparse.Action) -> str:
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    return f"[{name}]" if action.nargs == "?" else name


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: render_page}, "reference"))
