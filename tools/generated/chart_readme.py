"""The table of values in the README of each chart, made from the comments in its values.yaml.

So a key is described once, where people edit it, and no README describes one that was removed. What
a YAML parser gives has no comments in it: their lines are found by the lines of keys.

    # -- Where the image comes from.     image             (a group: it has no default)
    image:
      # -- The tag; empty:               image.tag   ""    The tag; empty: the chart's version.
      # the chart's version.
      tag: ""
    # -- Of the pod, as Kubernetes       resources   {"limits": {"memory": "1Gi"}}
    # has them.
    resources: {limits: {memory: 1Gi}}

A comment that starts with `# --` belongs to the
key below it, and goes on in the comment lines that follow. Every key has one, but those inside of a
value that is described as a whole. `--check` fails where a README differs, `--write` writes it.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

CHARTS = Path(__file__).parents[2] / "charts"
NAMES = ("iceberg-cdc-operator", "iceberg-cdc-pipelines", "iceberg-cdc-demo")
START = "<!-- Made from values.yaml by `make charts`. Do not edit. -->\n"
END = "<!-- End of what is made. -->\n"
"""What stands before START and after END is written by hand and stays."""
_COMMENT = re.compile(r"\s*# ?(.*)")


class BadValuesError(Exception):
    """A values.yaml or README that is not in the form that this tool needs."""


class Key(NamedTuple):
    """One documented key."""

    path: str
    """With the keys above it: `image.tag`, as `helm --set` has it."""
    description: str
    """On one line, without the `--`."""
    default: str | None
    """As one line of JSON, which is YAML too; None for a group of keys."""


def list_keys(text: str) -> list[Key]:
    """Return the keys of a values.yaml in order; BadValuesError where a comment is missing."""
    # Nodes and not values: only these know their lines.
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        raise BadValuesError("values.yaml is not a map")
    lines = text.splitlines()
    return [key for pair in root.value for key in _list_keys(*pair, lines=lines, above="")]


def _list_keys(
    name: yaml.Node, value: yaml.Node, *, lines: Sequence[str], above: str
) -> Iterator[Key]:
    """Yield the key and, where it is a group, those in it; `above` is the path before its name."""
    path = f"{above}{name.value}"
    line = name.start_mark.line
    description = _find_comment(lines, line)
    if description is None:
        raise BadValuesError(f"{path} has no comment that starts with `# --`")
    pairs = value.value if isinstance(value, yaml.MappingNode) else []
    # Keys on the line of their parent, `{limits: …}`, can have no comment: such a value is whole.
    below = [child.start_mark.line for child, _ in pairs if child.start_mark.line > line]
    if any(_find_comment(lines, number) for number in below):
        yield Key(path, description, None)
        for child, inner in pairs:
            yield from _list_keys(child, inner, lines=lines, above=f"{path}.")
    else:
        yield Key(path, description, _render_value(value))


def _find_comment(lines: Sequence[str], line: int) -> str | None:
    """Return the comment right above the line, None if it is none of ours.

    Read upwards to the line that starts with `--`; anything but a comment on the way, an empty line
    too, ends it. So a heading above a gap belongs to no key.
    """
    comment: list[str] = []
    for above in reversed(lines[:line]):
        match = _COMMENT.fullmatch(above)
        if match is None:
            return None
        comment.insert(0, match[1].strip())
        if comment[0].startswith("-- "):
            return " ".join(comment).removeprefix("-- ")
    return None


def _render_value(node: yaml.Node) -> str:
    """Return the value of a node in flow style, so that it fits a cell of a table."""
    # json.dumps and not yaml.dump: that one breaks long lines, and writes `...` after a scalar.
    value = yaml.safe_load(yaml.serialize(node))
    return json.dumps(value, ensure_ascii=False)


def render_table(text: str) -> str:
    """Return the Markdown table of a values.yaml."""
    rows = ["| key | default | what it does |", "|---|---|---|"]
    for key in list_keys(text):
        default = "" if key.default is None else f"`{_escape_cell(key.default)}`"
        rows.append(f"| `{key.path}` | {default} | {_escape_cell(key.description)} |")
    return "\n".join(rows) + "\n"


def _escape_cell(text: str) -> str:
    # Also within backticks: a table is cut into cells before anything in them is read.
    return text.replace("|", "\\|")


def render_readme(chart: Path) -> str:
    """Return the README of the chart with the table of its present values."""
    readme = (chart / "README.md").read_text(encoding="utf-8")
    before, start, rest = readme.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise BadValuesError(f"{chart / 'README.md'} has no lines between which the table belongs")
    values = (chart / "values.yaml").read_text(encoding="utf-8")
    return f"{before}{START}{render_table(values)}{END}{after}"


def main(arguments: list[str] | None = None) -> int:
    """Write or check; 1 when a README differs, or has no place for the table.

    All charts are read before that, so that one call names all problems.
    """
    parser = argparse.ArgumentParser(description="writes the tables of values of the charts")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write the tables")
    action.add_argument("--check", action="store_true", help="fail when a table differs")
    options = parser.parse_args(arguments)
    problems = []
    for name in NAMES:
        path = CHARTS / name / "README.md"
        try:
            wanted = render_readme(CHARTS / name)
        except BadValuesError as exc:
            problems.append(f"{name}: {exc}")
            continue
        if options.write:
            path.write_text(wanted, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != wanted:
            problems.append(f"{path} differs from values.yaml: run `make charts`")
    sys.stderr.write("".join(f"{problem}\n" for problem in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
