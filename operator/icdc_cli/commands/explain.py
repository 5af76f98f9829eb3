"""`icdc explain`: what a word of a status, an Event, an alert or a metric means, and the cure.

For people who have one word and a shell: nothing is asked, no file is read but the program's own,
so it answers while the cluster, the catalog or OpenSearch does not. A word that stands for two
things is explained as both. The texts are those of docs/words.md.
"""

import argparse
from collections.abc import Iterable, Iterator
from itertools import groupby

from icdc_api.errors import BadSpec
from icdc_cli import options, terminal
from icdc_cli.exits import Exit
from icdc_cli.explanations import lookup
from icdc_cli.explanations.entry import Explanation
from icdc_cli.options import Output

_WIDTH = 100
"""Characters of a line of the list."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "explain",
        help="explain a word of a status, an event, an alert or a metric",
        description="Says what a reason, failure class, condition, event, alert or metric means, "
        "who acts, and the cure as commands. Without WORD: lists all words. Needs no cluster and "
        "no network.",
    )
    parser.add_argument(
        "word", metavar="WORD", nargs="?", help="such as Gap or DeadLetters, in any case"
    )
    options.add_output(parser)
    options.add_verbose(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry out the command; return the exit code. BadSpec for an unknown word."""
    entries = lookup.list_all() if arguments.word is None else lookup.find(arguments.word)
    if not entries:
        near = ", ".join(lookup.suggest(arguments.word))
        hint = f"the nearest are {near}" if near else "icdc explain lists all words"
        raise BadSpec(f"{arguments.word!r} is no word of this program; {hint}")
    if arguments.output != Output.TEXT:
        options.write(
            {"explanations": [entry.to_document() for entry in entries]}, arguments.output
        )
    elif arguments.word is None:
        terminal.say("\n".join(_list_words(entries)))
    else:
        terminal.say("\n\n".join(format_entry(entry) for entry in entries))
    return Exit.DONE


def format_entry(entry: Explanation) -> str:
    """Return an entry for a person.

    Gap (reason)
      The changes since the applied snapshot are lost. …
      Who acts: the author of the pipeline
      Cure:
        icdc resync NAME -n NAMESPACE --table TABLE
    """
    lines = [
        f"{entry.word} ({entry.family})",
        f"  {entry.meaning}",
        f"  Who acts: {entry.who_acts}",
    ]
    lines.append(f"  Cure: {entry.advice}".rstrip())
    return "\n".join([*lines, *(f"    {command}" for command in entry.cure)])


def _list_words(entries: Iterable[Explanation]) -> Iterator[str]:
    """Yield a line for each entry, with as much of its meaning as fits, below its family."""
    every = list(entries)
    width = max(len(entry.word) for entry in every)
    for position, (family, group) in enumerate(groupby(every, lambda entry: entry.family)):
        if position:
            yield ""
        yield family.upper()
        for entry in group:
            yield f"{entry.word:{width}}  {_shorten(entry.meaning, _WIDTH - width - 2)}".rstrip()


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"
