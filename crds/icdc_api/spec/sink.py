"""`spec.sink`: the OpenSearch cluster that receives the documents, and how it is written to."""

import ipaddress
import re
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from icdc_api.base import ApiModel, Count, Flag
from icdc_api.problems import build_problem, build_refusal, find_first_duplicate, format_value
from icdc_api.spec.catalog import SecretSource
from icdc_api.spec.export_window import (
    WINDOW_PATTERN,
    WINDOW_RULE,
    ExportWindow,
    is_window,
)
from icdc_api.spec.indices.index_settings import find_harmful, flatten_settings
from icdc_api.spec.indices.ingest_pipeline import IngestPipeline

EMBEDDED = "embedded"
KEEP_INDICES_DEFAULT = 1
MIN_BULK_BYTES = 65536
MAX_KEEP_INDICES = 5
"""Each is recorded in the state document, which is bounded."""
# Without user:password@, which would be readable for all who may get pipelines.
HOST_PATTERN = r"^https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?$"
HOST_RULE = (
    "a host is http[s]://name[:port][/path] without user or password, with a port up to 65535 and "
    "an address of IPv6 in brackets; "
    "in local runs the word embedded may replace the list"
)


class DeadLetterPolicy(StrEnum):
    """What is done with a row that the index refuses."""

    INDEX = "Index"
    """Store it in `<index>-dead-letters`, and go on."""
    STOP = "Stop"
    """Stall the table at the first one."""


class Strings(StrEnum):
    """How strings can be searched; each form costs the cluster time and disk."""

    KEYWORD_AND_TEXT = "KeywordAndText"
    """As whole values, and by words in the subfield `text`."""
    KEYWORD = "Keyword"
    """As whole values alone."""
    TEXT = "Text"
    """By words alone."""


class Tls(ApiModel):
    """How the certificate of the hosts is checked."""

    ca_from: SecretSource | None = None
    """Secret whose key `ca.crt` holds the certificates to trust, as PEM. Default: those of the
    image. Without effect when insecureSkipVerify is true."""
    insecure_skip_verify: Flag = False
    """True accepts every certificate: for experiments only. Default false."""


class Bulk(ApiModel):
    """Size and number of the write requests of one Spark task."""

    max_bytes: Annotated[Count, Field(ge=MIN_BULK_BYTES, le=104857600)] = 8388608
    """Bytes of one bulk request, at most. Default 8388608 (8 MiB). Keep it below
    http.max_content_length of the cluster (100 MiB). A single larger document is sent alone."""
    max_in_flight: Annotated[Count, Field(ge=1, le=32)] = 2
    """Bulk requests that one Spark task sends at a time. Default 2. More loads the cluster more;
    it is lowered automatically while the cluster answers 429, and where more requests of maxBytes
    do not fit into the memory that an executor has beside its heap."""


class SinkLimits(ApiModel):
    """What a pipeline may ask of the cluster."""

    # None and not 0: as lingerSeconds in `changelog`.
    documents_per_second: Count | None = None
    """Documents that all tasks of a run together write or delete in a second, at most. Default 0:
    no limit. Each executor has an equal share, by dynamicAllocation.maxExecutors or
    executor.instances."""
    bytes_per_second: Count | None = None
    """Bytes of bulk requests in a second, as documentsPerSecond. Default 0: no limit."""
    export_window: (
        Annotated[
            str,
            StringConstraints(max_length=11),
            Field(json_schema_extra={"pattern": WINDOW_PATTERN}),
        ]
        | None
    ) = None
    """When exports may write, as HH:MM-HH:MM in UTC, such as 22:00-06:00; also those of
    spec.resync. One that is under way waits for the next window, with what it has done. Tables that
    are exported are followed, unless a re-export has begun, or a gap or schema change needs one.
    Default empty: always."""

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        if self.export_window and not is_window(self.export_window):
            raise build_refusal(self.export_window, WINDOW_RULE, "exportWindow")
        return self


class DeadLetters(ApiModel):
    """What is done with rows that the index refuses, such as a number out of range."""

    policy: DeadLetterPolicy = DeadLetterPolicy.INDEX
    """Index: the row is stored in `<index>-dead-letters` and the table goes on. Stop: the
    table stalls at the first one. Default Index."""
    max_rows: Annotated[Count, Field(le=1000000)] = 10000
    """Greatest number of dead letters of one table; above it the table stalls with DeadLetterLimit.
    Default 10000. Without effect when policy is Stop."""


def _convert_word(value: object) -> object:
    # `hosts: embedded` is a word where a list belongs; from here on it is a list everywhere.
    return (EMBEDDED,) if value == EMBEDDED else value


def _exists(name: str, port: str | None) -> bool:
    """Return whether there can be such an address; the pattern knows only its form."""
    if name.startswith("["):
        try:
            ipaddress.IPv6Address(name[1:-1])
        except ValueError:
            return False
    return port is None or 0 < int(port[1:]) < 65536


Host = Annotated[str, StringConstraints(min_length=1, max_length=512)]


class OpenSearch(ApiModel):
    """The cluster and how to write to it."""

    hosts: Annotated[
        tuple[Host, ...],
        Field(
            min_length=1,
            max_length=16,
            # The pattern is in the CRD alone: local runs also take the word embedded, so the
            # model checks by itself.
            json_schema_extra={
                "items": {"type": "string", "maxLength": 512, "pattern": HOST_PATTERN},
                "x-kubernetes-list-type": "set",
            },
        ),
        BeforeValidator(_convert_word),
    ]
    """URLs of the cluster, as http[s]://name[:port][/path]; requests are spread over them.
    Required. In local runs the value may also be the word embedded: a node is started for the
    run."""
    credentials_from: SecretSource | None = None
    """Secret with the keys username and password, or awsRegion and awsService to sign requests
    for AWS. Default: no authentication."""
    tls: Tls = Tls()
    """How the certificate of https hosts is checked."""
    index_settings: Annotated[
        dict[str, Any],
        Field(
            max_length=256,
            json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
        ),
    ] = Field(default_factory=dict)
    """Settings of new indices, by their OpenSearch names, such as number_of_shards. Default empty:
    the cluster's own. A change takes effect with the next new index; resync makes one. Settings
    with which the index could differ from its table are refused: pipelines, blocks, derived_source,
    append_only, gc_deletes, soft_deletes off, translog.durability async."""
    # None and not the default: as lingerSeconds in `changelog`.
    strings: Strings | None = None
    """Mapping of string columns. Keyword: whole values. Text: words. KeywordAndText: whole values,
    and words in the subfield `text`. A field's own mapping comes first. Default KeywordAndText. A
    change needs a new index, see changelog.onIncompatibleSchema."""
    pipeline: IngestPipeline | None = None
    """An ingest pipeline of the cluster that adds fields to documents, such as embeddings. Default:
    none. A change needs a new index, see changelog.onIncompatibleSchema."""
    bulk: Bulk = Bulk()
    """Size and number of the write requests."""
    keep_indices: Annotated[Count, Field(le=MAX_KEEP_INDICES)] | None = None
    """Indices of a table that stay when a re-export has replaced them, the last ones used. They are
    not written, take disk space, and readers can be switched back to the last one (spec.resync,
    mode Rollback). Default 1, at most 5. A lower number removes the others with the next run."""
    limits: SinkLimits | None = None
    """What the pipeline may ask of the cluster. Default: no limits. A change takes effect with the
    next batch, for which the run is replaced."""
    dead_letters: DeadLetters = DeadLetters()
    """What is done with rows that the index refuses."""

    @property
    def export_window(self) -> ExportWindow | None:
        """When exports may write; None for always."""
        text = self.limits and self.limits.export_window
        return ExportWindow(text) if text else None

    @property
    def ingest_pipeline(self) -> IngestPipeline | None:
        """The ingest pipeline that documents go through; None for none."""
        return self.pipeline if self.pipeline and self.pipeline.name else None

    @property
    def retained_indices(self) -> int:
        """How many indices stay when others have replaced them."""
        return KEEP_INDICES_DEFAULT if self.keep_indices is None else self.keep_indices

    @property
    def embedded(self) -> bool:
        """True if the local runner starts a node of its own."""
        return self.hosts == (EMBEDDED,)

    @model_validator(mode="after")
    def _check_hosts(self) -> Self:
        if self.embedded:
            return self
        for position, host in enumerate(self.hosts):
            form = re.match(HOST_PATTERN, host)
            if form is None or not _exists(form[1], form[2]):
                # A value that looks like it holds a password is not repeated.
                seen = "the value" if "@" in host else format_value(host)
                raise build_problem(f"{seen} is not allowed: {HOST_RULE}", "hosts", position)
        # One node named twice would get twice the share of the requests.
        twice = find_first_duplicate(tuple(host.rstrip("/") for host in self.hosts))
        if twice:
            raise build_refusal(twice[1], "each host must be named only once", "hosts", twice[0])
        return self

    @model_validator(mode="after")
    def _check_index_settings(self) -> Self:
        # Not in the CRD: CEL does not see the fields of an object without a schema.
        for name, _, why in find_harmful(flatten_settings(self.index_settings)):
            raise build_problem(f"the setting is refused: {why}", "indexSettings", name)
        return self


class Sink(ApiModel):
    """Where the documents go."""

    opensearch: OpenSearch
    """The OpenSearch cluster. Required."""
