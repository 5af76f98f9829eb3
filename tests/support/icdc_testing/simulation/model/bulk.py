"""How the model of OpenSearch applies a bulk request, item by item, whole or in two parts."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from icdc_testing.simulation.model.stored_index import (
    RefusedDocumentError,
    StoredIndex,
    VersionConflictError,
)

if TYPE_CHECKING:
    from icdc_testing.simulation.model.target import ModelTarget

GUARD_LINES = 2
"""The product's guard: an update, with its document, that can never be applied."""


def split_bulk(body: bytes) -> list[bytes]:
    """Return the operations behind the guard, each with its document."""
    lines = body.rstrip(b"\n").split(b"\n")[GUARD_LINES:]
    operations, position = [], 0
    while position < len(lines):
        size = 1 if lines[position].startswith(b'{"delete"') else 2
        operations.append(b"\n".join(lines[position : position + size]) + b"\n")
        position += size
    return operations


def answer_bulk(target: "ModelTarget", name: str, body: bytes) -> tuple[int, dict[str, Any]]:
    """Apply the request and return the answer."""
    index = target.indices.get(name)
    behind = target.find_aliased(name)
    guard = _fail_item("update", 404, "index_not_found_exception", "is not an alias")
    if behind:
        guard = _fail_item("update", 404, "document_missing_exception", "[icdc-guard]: missing")
        index = target.indices[next(iter(behind))]
    if index is None:
        lost = [
            _fail_item(kind, 404, "index_not_found_exception", f"no such index [{name}]")
            for kind, _, _ in _read(split_bulk(body))
        ]
        return 200, {"errors": True, "items": [guard, *lost]}
    items = [_apply(target, index, *operation) for operation in _read(split_bulk(body))]
    return 200, {"errors": True, "items": [guard, *items]}


def _read(operations: list[bytes]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any] | None]]:
    for operation in operations:
        action, _, source = operation.rstrip(b"\n").partition(b"\n")
        ((kind, fields),) = from_json(action).items()
        yield kind, fields, from_json(source) if source else None


def _apply(
    target: "ModelTarget",
    index: StoredIndex,
    kind: str,
    fields: dict[str, Any],
    source: dict[str, Any] | None,
) -> dict[str, Any]:
    document_id = fields["_id"]
    try:
        result, _ = index.write(document_id, source, target.now(), external=fields["version"])
    except VersionConflictError as conflict:
        return _fail_item(
            kind,
            409,
            "version_conflict_engine_exception",
            f"[{document_id}]: version conflict, current version [{conflict.current}] is higher "
            f"or equal to the one provided [{fields['version']}]",
        )
    except RefusedDocumentError:
        return _fail_item(kind, 400, "mapper_parsing_exception", "failed to parse field [value]")
    index.touched.discard(document_id)
    status = {"created": 201, "not_found": 404}.get(result, 200)
    return {kind: {"result": result, "status": status}}


def _fail_item(kind: str, status: int, error_type: str, reason: str) -> dict[str, Any]:
    return {kind: {"status": status, "error": {"type": error_type, "reason": reason}}}
