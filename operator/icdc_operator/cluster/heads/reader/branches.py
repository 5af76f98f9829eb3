"""The branches of a table and their newest snapshots, in its metadata: all else is passed over."""

from collections.abc import Mapping

from pydantic import BaseModel, Field

from icdc_api.errors import BranchNotFound

MAIN = "main"
_NO_SNAPSHOT = -1
"""How older writers say that a table has none."""

MAX_BRANCHES = 10_000
"""Of one table; they are remembered for each."""

Heads = Mapping[str, int]
"""Newest snapshot by branch; an empty table has none."""


class _Ref(BaseModel):
    snapshot_id: int = Field(alias="snapshot-id")
    type: str


class _Metadata(BaseModel):
    """What heads need of a table's metadata. All else may be of a kind that is not known here."""

    format_version: int = Field(alias="format-version")
    current_snapshot_id: int | None = Field(None, alias="current-snapshot-id")
    refs: Mapping[str, _Ref] = {}


class _Answer(BaseModel):
    """A table as a REST catalog sends it."""

    metadata: _Metadata


def branches(metadata: object) -> Heads:
    """Return those of metadata as Python has JSON. Raises ValueError."""
    return _heads(_Metadata.model_validate(metadata))


def parse_file(content: bytes) -> Heads:
    """Return those of a metadata file. Raises ValueError."""
    return _heads(_Metadata.model_validate_json(content))


def parse_answer(content: bytes) -> Heads:
    """Return those of a table that a REST catalog sends. Raises ValueError."""
    return _heads(_Answer.model_validate_json(content).metadata)


def newest_snapshot(heads: Heads, table: str, branch: str) -> int | None:
    """Return the snapshot of a branch, None for an empty table; raises BranchNotFound."""
    if branch not in heads and branch != MAIN:
        raise BranchNotFound(f"{table} has no branch {branch!r}")
    return heads.get(branch)


def _heads(table: _Metadata) -> Heads:
    found = {name: ref.snapshot_id for name, ref in table.refs.items() if ref.type == "branch"}
    if len(found) > MAX_BRANCHES:
        raise ValueError(f"more than {MAX_BRANCHES} branches")
    if table.current_snapshot_id not in (None, _NO_SNAPSHOT):
        found.setdefault(MAIN, table.current_snapshot_id)
    return found
