"""The sink `opensearch` of Data Prepper as `spec.sink.opensearch`, and what it says of tables."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icdc_cli.commands.data_prepper import remarks
from icdc_cli.commands.data_prepper.sections import Section

MEBIBYTE = 1 << 20
# OpenSearch refuses longer requests by default (http.max_content_length).
MAX_BULK_BYTES = 100 * MEBIBYTE
# Data Prepper's own, for a file that names none.
DEFAULT_REGION = "us-east-1"

_ID = re.compile(r'\$\{\s*getMetadata\(\s*\\?"document_id\\?"\s*\)\s*\}')
_ACTION = re.compile(r'\$\{\s*getMetadata\(\s*\\?"bulk_action\\?"\s*\)\s*\}')
_TABLE = re.compile(r'\$\{\s*getMetadata\(\s*\\?"iceberg_table_name\\?"\s*\)\s*\}')
_FIELD = re.compile(r"\$\{/?([A-Za-z0-9_]+)\}")
_FIELDS = re.compile(r"\$\{/?[A-Za-z0-9_]+\}(\|\$\{/?[A-Za-z0-9_]+\})*")


@dataclass
class ConvertedSink:
    """What a sink says."""

    opensearch: dict[str, Any] = field(default_factory=dict)
    """`spec.sink.opensearch`."""
    index: str | None = None
    """Index of all events; None where it follows from the table."""
    identifier_columns: list[str] = field(default_factory=list)
    """Columns of which the sink itself makes the id."""
    columns: list[str] = field(default_factory=list)
    """Columns in the documents; empty for all."""
    routing: list[str] = field(default_factory=list)
    """Columns by which documents are routed; empty for their ids."""


def convert(section: Section, name: str) -> ConvertedSink:
    """Convert the sink of the pipeline `name`, which begins the names of its Secrets."""
    sink = ConvertedSink()
    sink.opensearch["hosts"] = section.take_texts("hosts")
    _convert_access(section, name, sink.opensearch)
    settings = {
        setting: value
        for setting in ("number_of_shards", "number_of_replicas")
        if (value := section.take_number(setting, "a whole number")) is not None
    }
    if settings:
        sink.opensearch["indexSettings"] = settings
    _convert_bulk_size(section, sink.opensearch)
    _convert_index(section, sink)
    _convert_id(section, sink)
    _convert_routing(section, sink)
    for key in section.take_texts("include_keys"):
        column = key.removeprefix("/")
        if "/" in column:
            section.note("include_keys", f"{column} is nested: whole columns are chosen")
        sink.columns.append(column.partition("/")[0])
    sink.columns = list(dict.fromkeys(sink.columns))
    section.close(remarks.SINK)
    return sink


def _convert_access(section: Section, name: str, opensearch: dict[str, Any]) -> None:
    """Convert credentials and TLS. Values of credentials are not read further, not even noted."""
    # Taken even where `aws` wins, or `close` would note them as unknown options.
    user, password = section.take("username"), section.take("password")
    given = section.take("aws")
    _note_serverless(section)
    old_region, signed = section.take_text("aws_region"), section.take_flag("aws_sigv4")
    if given is not None or signed:
        aws = section.open("aws", {} if given is None else given)
        region = aws.take_text("region") or old_region or DEFAULT_REGION
        _note_serverless(aws)
        aws.close(remarks.AWS)
        section.note(
            "aws",
            f"kubectl create secret generic {name}-opensearch --from-literal=awsRegion={region} "
            "--from-literal=awsService=es",
        )
    elif user is not None or password is not None:
        section.note(
            "username",
            f"kubectl create secret generic {name}-opensearch --from-literal=username=… "
            "--from-literal=password=…",
        )
    if given is not None or signed or user is not None or password is not None:
        opensearch["credentialsFrom"] = _build_secret_source(f"{name}-opensearch")
    certificate = section.take_text("cert")
    tls: dict[str, Any] = {}
    if certificate is not None:
        tls["caFrom"] = _build_secret_source(f"{name}-opensearch-ca")
        section.note(
            "cert",
            f"kubectl create secret generic {name}-opensearch-ca --from-file=ca.crt={certificate}",
        )
    if section.take_flag("insecure"):
        tls["insecureSkipVerify"] = True
    if tls:
        opensearch["tls"] = tls


def _note_serverless(section: Section) -> None:
    if section.take_flag("serverless"):
        section.note("serverless", remarks.SERVERLESS)


def _convert_bulk_size(section: Section, opensearch: dict[str, Any]) -> None:
    size = section.take_number("bulk_size", "a whole number of MiB")
    if size is None:
        return
    # Below 0 is no limit in Data Prepper; here there always is one.
    if 0 < size <= MAX_BULK_BYTES // MEBIBYTE:
        opensearch["bulk"] = {"maxBytes": size * MEBIBYTE}
    else:
        section.note("bulk_size", "requests are limited: 8 MiB, or bulk.maxBytes up to 100 MiB")


def _convert_index(section: Section, sink: ConvertedSink) -> None:
    kind, index = section.take_text("index_type"), section.take_text("index")
    if kind not in (None, "custom", "management_disabled", "management-disabled"):
        section.note("index_type", "only rows of tables are indexed; the type is not used")
    if index is None or _TABLE.fullmatch(index):
        return
    if "${" in index or "%{" in index:
        section.note(
            "index",
            "an index belongs to a table, and its name has no times or fields: it is the name of "
            "the table unless tables[].index says another",
        )
    else:
        sink.index = index


def _convert_id(section: Section, sink: ConvertedSink) -> None:
    text, old = section.take_text("document_id"), section.take_text("document_id_field")
    text = f"${{{old}}}" if text is None and old is not None else text
    if text is None:
        section.note(
            "document_id",
            "absent, so documents had random ids; here an id is made of identifierColumns",
        )
    elif _FIELDS.fullmatch(text):
        sink.identifier_columns = _FIELD.findall(text)
    elif not _ID.fullmatch(text):
        section.note("document_id", "an id is made of identifierColumns, in their order")
    action = section.take_text("action")
    if action is not None and not _ACTION.fullmatch(action):
        section.note("action", remarks.SINK["action"])


def _convert_routing(section: Section, sink: ConvertedSink) -> None:
    text, old = section.take_text("routing"), section.take_text("routing_field")
    text = f"${{{old}}}" if text is None and old is not None else text
    if text is None:
        return
    if _FIELDS.fullmatch(text):
        sink.routing = _FIELD.findall(text)
    else:
        section.note("routing", remarks.ROUTING)


def _build_secret_source(name: str) -> Mapping[str, Any]:
    return {"secretRef": {"name": name}}
