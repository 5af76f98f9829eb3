"""Names that are built from other names: tables, indices, tags, runs, labels; each built once.

Pure text. The rules for index names are those of OpenSearch; the pipeline's own name is bounded
so that the names of runs, pods and services made from it stay below 63 characters.
"""

import hashlib
import re

from icdc_api.errors import BadSpec
from icdc_api.problems import format_value

GROUP = "icebergcdc.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "IcebergCDCPipeline"
PLURAL = "icebergcdcpipelines"
SINGULAR = "icebergcdcpipeline"
SHORT_NAME = "icdc"
CATEGORY = "iceberg"
CRD_NAME = f"{PLURAL}.{GROUP}"

LABEL_PREFIX = f"{GROUP}/"
LABEL_PIPELINE = f"{LABEL_PREFIX}pipeline"
LABEL_RUN = f"{LABEL_PREFIX}run"
MANAGED_BY = "iceberg-cdc-operator"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_VERSION = "app.kubernetes.io/version"
RESERVED_KEYS = (LABEL_PREFIX, LABEL_MANAGED_BY, "sparkoperator.k8s.io/")
"""Prefixes of the labels and annotations by which runs and their pods are found."""

FINALIZER = f"{LABEL_PREFIX}delete-indices"
ANNOTATION_RETAIN = f"{LABEL_PREFIX}retain-indices"
RETAIN_ASKED = "true"
"""Value of ANNOTATION_RETAIN that lets a pipeline be removed without deleting its indices."""

ANNOTATION_ASK = f"{LABEL_PREFIX}ask"
"""A question to the pipeline, see `icdc_api.status.triggers`."""

# The wire names of everything above and below are API: objects and indices of earlier versions are
# found by them.
STATE_INDEX = "icdc-state"
DEAD_LETTERS_SUFFIX = "-dead-letters"
DEFAULT_NAMESPACE = "default"
MAX_NAMESPACE = 63
NAMESPACE_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""Of Kubernetes (RFC 1123). Local runs make directories of a namespace, so no path may be one."""

# A label value and the name of a Service have 63 characters. A run adds `-c12345-12` to the name,
# and spark-operator `-driver` or `-ui-svc` to that; the rest is for longer numbers.
MAX_PIPELINE_NAME = 40
# OpenSearch allows 255 bytes; the longest suffix is that of the dead letters.
MAX_INDEX_BYTES = 255 - len(DEAD_LETTERS_SUFFIX)
# In characters; entries of status, request and report have the name of their table.
MAX_TABLE_NAME = 253

# A DNS label that begins with a letter, because spark-operator refuses any other name of a run.
PIPELINE_NAME_PATTERN = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
PIPELINE_NAME_WORDS = (
    "lower-case letters, digits and dashes, beginning with a letter and not ending with a dash"
)
# The grammar of `parse_table_name` as one expression, for the CRD.
TABLE_NAME_PATTERN = r"^(`([^`]|``)+`|[^`.\s]+)(\.(`([^`]|``)+`|[^`.\s]+))+$"
INDEX_FORBIDDEN = '\\/*?"<>|,#: '
INDEX_RULE = (
    'an index name is in lower case, contains none of \\ / * ? " < > | , # : and no space, '
    "does not start with - _ + and is not . or .."
)

_TABLE_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.\s]+)")
# Six digits at least: from 1,000,000 on a number has more, and stays a number.
_PHYSICAL = re.compile(r"-[0-9]{6,}$")
_APPLIED_TAG = re.compile(r"icdc-(?P<alias>.+)-[0-9a-f]{10}")


def parse_table_name(name: str) -> tuple[str, ...]:
    """Return the parts of `namespace.table`, of which the last is the table; or BadSpec.

    shop.orders          shop, orders
    a.b.orders           a, b, orders
    shop.`my.orders`     shop, my.orders
    shop.`a``b`          shop, a`b
    orders               BadSpec: at least two parts
    """
    parts: list[str] = []
    rest = name
    while match := _TABLE_PART.match(rest):
        quoted, plain = match.groups()
        parts.append(plain if quoted is None else quoted.replace("``", "`"))
        rest = rest[match.end() :]
        if not rest and len(parts) >= 2:
            return tuple(parts)
        if not rest.startswith("."):
            break
        rest = rest[1:]
    raise BadSpec(
        f"{format_value(name)} is not a table name: it must be namespace.table, with backticks "
        "around a part that contains a dot or a space"
    )


def derive_index(table_name: str) -> str:
    """Return the alias of a table that sets none; BadSpec where none can be derived."""
    lower = ".".join(parse_table_name(table_name)).lower()
    dashed = "".join("-" if _is_forbidden(character) else character for character in lower)
    # A leading dot is allowed, but is by convention that of internal indices.
    plain = dashed.lstrip("-_+.")
    problem = find_index_problem(plain)
    if problem:
        raise BadSpec(
            f"no index name can be derived from {format_value(table_name)}: {problem}; set index"
        )
    return plain


def find_index_problem(index: str) -> str | None:
    """Return why OpenSearch would refuse the alias, or a name derived from it; else None."""
    if not index or index in (".", ".."):
        return INDEX_RULE
    if index != index.lower() or index[0] in "-_+" or any(map(_is_forbidden, index)):
        return INDEX_RULE
    if len(index.encode()) > MAX_INDEX_BYTES:
        return f"an index name has at most {MAX_INDEX_BYTES} bytes"
    if index == STATE_INDEX:
        return f"{STATE_INDEX} is reserved for the progress of pipelines"
    return None


def _is_forbidden(character: str) -> bool:
    return character in INDEX_FORBIDDEN or character.isspace() or ord(character) < 0x20


def name_physical_index(index: str, number: int) -> str:
    """Return `<index>-000001` for number 1."""
    return f"{index}-{number:06d}"


def parse_physical_number(index: str, physical: str) -> int | None:
    """Return the number in the name of a physical index; None if it is not one of `index`."""
    suffix = physical.removeprefix(index)
    if suffix == physical or not _PHYSICAL.fullmatch(suffix):
        return None
    return int(suffix[1:])


def name_dead_letters_index(index: str) -> str:
    """Return the name of the index that stores the dead letters of `index`."""
    return index + DEAD_LETTERS_SUFFIX


def find_base_alias(index: str) -> str | None:
    """Return the alias from which we would derive the name `index`; None if from none.

    orders-000001          orders
    orders-dead-letters    orders
    orders-1               None
    """
    if index.endswith(DEAD_LETTERS_SUFFIX):
        return index.removesuffix(DEAD_LETTERS_SUFFIX)
    return _PHYSICAL.sub("", index) if _PHYSICAL.search(index) else None


def compute_tag_key(state_index_uuid: str, owner: str) -> str:
    """Return the part of tag names that identifies a pipeline: a hash of state index and owner.

    Of both, because pipelines of production and staging may have the same name.
    """
    # 40 bits: few pipelines follow one table, and the names of tags are read by people.
    return hashlib.sha256(f"{state_index_uuid}\n{owner}".encode()).hexdigest()[:10]


def name_tag(index: str, key: str | None = None) -> str:
    """Return the Iceberg tag that keeps the applied snapshot of an alias: `icdc-<index>-<key>`.

    Without a key: the name in earlier versions.
    """
    return f"icdc-{index}" if key is None else f"icdc-{index}-{key}"


def name_next_tag(tag: str) -> str:
    """Return the tag that keeps the snapshot up to which the current batch applies changes."""
    return f"{tag}-next"


def is_tag_of(tag: str, key: str) -> bool:
    """Return whether a tag belongs to the pipeline of `key`, whatever its alias."""
    return tag.startswith("icdc-") and tag.removesuffix("-next").endswith(f"-{key}")


def find_tagged_alias(tag: str) -> str | None:
    """Return the alias of which a tag keeps the applied snapshot; None for other tags.

    icdc-orders-0123456789         orders
    icdc-orders-0123456789-next    None
    """
    found = _APPLIED_TAG.fullmatch(tag)
    return found["alias"] if found else None


def name_run(pipeline: str, *, letter: str, sequence: int, attempt: int) -> str:
    """Return `<pipeline>-<e|c|p|v|r|d><sequence>-<attempt>`."""
    return f"{pipeline}-{letter}{sequence}-{attempt}"


def build_owner_key(namespace: str | None, name: str) -> str:
    """Return `namespace/name`: the owner of a state document, whatever the cluster."""
    # Without the uid and the cluster: a pipeline that is created again, restored from a backup or
    # moved elsewhere goes on from its state documents.
    return f"{namespace or DEFAULT_NAMESPACE}/{name}"
