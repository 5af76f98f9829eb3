"""What a request writes into OpenSearch, read from its bytes: the test's view of the sink."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from icdc_testing.network.http_messages import HttpRequest

_DOCUMENT_PATH = re.compile(r"^/([^/]+)/(_doc|_create)/([^/]+)$")
_BULK_PATH = re.compile(r"^(?:/([^/]+))?/_bulk$")


@dataclass(frozen=True)
class Write:
    """One document operation that was forwarded to the node.

    `op` is index, create, update or delete; `version` the external one, None without;
    `source` the document's bytes and `digest` their sha256 in hex, empty for a delete.
    """

    op: str
    index: str
    id: str
    version: int | None
    digest: str
    source: bytes


@dataclass(frozen=True)
class BulkItem:
    """One operation of a bulk body: its meaning and its lines."""

    write: Write
    lines: bytes


def is_bulk(request: HttpRequest) -> bool:
    """Return whether the request is a `_bulk` one."""
    return _BULK_PATH.match(request.path) is not None


def list_writes(request: HttpRequest) -> list[Write]:
    """Return every document operation of a request; none for a request that writes no document."""
    if is_bulk(request):
        # An entry that requires an alias guards against the creation of the index; on an index
        # the server always refuses it.
        return [item.write for item in parse_bulk_items(request) if not _requires_alias(item.lines)]
    single = _DOCUMENT_PATH.match(request.path)
    if single is None or request.method not in ("PUT", "POST", "DELETE"):
        return []
    op = {"_create": "create", "_doc": "index"}[single[2]]
    query = parse_qs(urlsplit(request.target).query)
    op = "delete" if request.method == "DELETE" else query.get("op_type", [op])[0]
    version = int(query["version"][0]) if "version" in query else None
    source = b"" if op == "delete" else request.decompress()
    return [_write(op, unquote(single[1]), unquote(single[3]), version, source)]


def _requires_alias(lines: bytes) -> bool:
    return b'"require_alias":true' in lines.partition(b"\n")[0]


def parse_bulk_items(request: HttpRequest) -> list[BulkItem]:
    """Return the operations of a bulk request, in their order."""
    path = _BULK_PATH.match(request.path)
    default_index = unquote(path[1] or "") if path else ""
    return list(_parse_items(request.decompress(), default_index))


def _parse_items(body: bytes, default_index: str) -> Iterator[BulkItem]:
    lines = iter(body.split(b"\n"))
    for action_line in lines:
        if not action_line.strip():
            continue
        ((op, target),) = json.loads(action_line).items()
        source = b"" if op == "delete" else next(lines)
        index = target.get("_index", default_index)
        write = _write(op, index, target.get("_id", ""), target.get("version"), source)
        whole = action_line + b"\n" + (b"" if op == "delete" else source + b"\n")
        yield BulkItem(write, whole)


def _write(op: str, index: str, doc_id: str, version: int | None, source: bytes) -> Write:
    digest = hashlib.sha256(source).hexdigest() if source else ""
    return Write(op, index, doc_id, version, digest, source)
