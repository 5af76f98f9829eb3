"""Writes a resource as YAML that kubectl reads as it is meant.

PyYAML writes a text without quotes where it would read it as text itself. Other readers take more
for numbers and booleans:

    text     PyYAML alone    kubectl takes that for    here
    y        y               true                      'y'
    1e3      1e3             1000                      '1e3'
    0o17     0o17            15                        '0o17'
"""

import re
from collections.abc import Mapping
from typing import Any, TextIO

import yaml

from icdc_cli import terminal

_AMBIGUOUS = re.compile(r"[yYnN]|[-+]?[.]?[0-9].*")


class _QuotingDumper(yaml.SafeDumper):
    """SafeDumper with quotes around each text that any reader takes for something else."""


def _represent_text(dumper: _QuotingDumper, text: str) -> yaml.ScalarNode:
    style = "'" if _AMBIGUOUS.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_QuotingDumper.add_representer(str, _represent_text)


def write(resource: Mapping[str, Any], stream: TextIO) -> None:
    """Write the resource, its fields in the order that they have."""
    unicode = terminal.takes_unicode(stream)
    yaml.dump(resource, stream, _QuotingDumper, sort_keys=False, allow_unicode=unicode)
