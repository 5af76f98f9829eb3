"""The formats that `-o` of `icdc status` takes, as users of `kubectl get` expect them.

    -o text, wide     the columns of kubectl get, wide with more of them
    -o name           icebergcdcpipeline.icebergcdc.dev/shop
    -o json, yaml     the resource, or a List of them
    -o jsonpath=…     a template, see `json_paths`

Must not know a status: a resource of any version is written as it is.
"""

import argparse
import sys
from enum import StrEnum

from icdc_api import naming
from icdc_api.errors import BadSpec
from icdc_cli import options, terminal
from icdc_cli.cluster import json_paths
from icdc_cli.cluster.json_paths import Template
from icdc_cli.options import Output
from icdc_operator.cluster.kube.kinds import Resource

_JSON_PATH = "jsonpath="


class StatusView(StrEnum):
    """What `-o` of `icdc status` takes, beside a template."""

    TEXT = "text"
    """Tables for people."""
    WIDE = "wide"
    """The same with more columns."""
    NAME = "name"
    """Names for kubectl, a line each."""
    JSON = "json"
    """See `Output`."""
    YAML = "yaml"
    """See `Output`."""


FOR_PEOPLE = (StatusView.TEXT, StatusView.WIDE)
_parse_name = options.build_choice_type(StatusView)


def parse(text: str) -> StatusView | Template:
    """Return what `-o` asks for; ArgumentTypeError with the allowed values."""
    if not text.startswith(_JSON_PATH):
        return _parse_name(text)
    try:
        return json_paths.parse(text.removeprefix(_JSON_PATH))
    except BadSpec as error:
        raise argparse.ArgumentTypeError(error.message) from error


def write(document: Resource, view: StatusView | Template) -> None:
    """Write the document to standard output, unless the view is one for people."""
    if isinstance(view, Template):
        # Without a line feed at the end, as of kubectl: the template says where lines end.
        sys.stdout.write(terminal.make_printable(view.render(document)))
    elif view not in FOR_PEOPLE:
        options.write(document, Output(view.value))


def name_resource(resource: Resource) -> str:
    """Return the name by which kubectl takes the pipeline."""
    return f"{naming.SINGULAR}.{naming.GROUP}/{resource['metadata']['name']}"
