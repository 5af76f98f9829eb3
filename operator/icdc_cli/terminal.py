"""Writes text for people, without what a terminal would act on.

Conditions, messages, ids and logs hold what a tenant, a catalog, an index or a driver chose. An
escape sequence in them would change the title, the clipboard or the lines above of whoever reads.

    text                     on the terminal
    shop\\x1b[2J              shop�[2J
    three lines\\r            three lines�
    a tab, a line feed       as they are

Text alone: `options.write` escapes what programs read.
"""

import re
import shutil
import sys
from typing import TextIO

# C0 with ESC, DEL and C1, of which 0x9b begins an escape sequence as ESC [ does. Tab and line feed
# stay; carriage return does not, as what follows it would overwrite the line before.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def make_printable(text: str) -> str:
    """Return the text with U+FFFD for each character that a terminal would act on."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def say(text: str) -> None:
    """Write lines to standard output."""
    sys.stdout.write(f"{make_printable(text)}\n")


def complain(text: str) -> None:
    """Write a sentence to standard error, after the name of the program."""
    sys.stderr.write(f"icdc: {make_printable(text)}\n")


def fit(text: str, *, hint: str) -> str:
    """Return the text with its lines cut at the edge of the terminal, and then `hint` below it.

    As it is where standard output is no terminal, or wide enough.
    """
    if not sys.stdout.isatty():
        return text
    # By COLUMNS, or else by the terminal itself.
    width = shutil.get_terminal_size().columns
    end = "\N{HORIZONTAL ELLIPSIS}" if takes_unicode(sys.stdout) else "..."
    lines = text.split("\n")
    cut = [line if len(line) <= width else line[: width - len(end)] + end for line in lines]
    return text if cut == lines else "\n".join((*cut, "", hint))


def takes_unicode(stream: TextIO) -> bool:
    """Return whether the stream can encode every character; a stream in memory has no encoding."""
    return (stream.encoding or "utf-8").lower().startswith("utf")
