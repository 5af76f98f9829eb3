"""Parse the branches of a table and their newest snapshots out of Iceberg metadata.

Part 3 of `reader`: read. All other fields are ignored, so that metadata of a newer format version
can be read. Pure; it does not know where the metadata came from.

    {"format-version": 2, "current-snapshot-id": 7,
     "refs": {"audit": {"snapshot-id": 5, "type": "branch"},
              "v1": {"snapshot-id": 3, "type": "tag"}}}        -> {"main": 7, "audit": 5}
"""

from collections.abc import Mapping

from pydantic import BaseModel, Field

from icdc_api.errors import BranchNotFound

MAIN = "main"
_NO_SNAPSHOT = -1
"""Written by older versions of Iceberg for a table without a snapshot."""

MAX_BRANCHES = 10_000
"""Of one table: a child keeps them in memory for each table."""

Heads = Mapping[str, int]
"""Newest snapshot id by branch name; without entries for an empty table."""


class _Ref(BaseModel):
    snapshot_id: int = Field(alias="snapshot-id")
    """The newest snapshot of the branch, or that of the tag."""
    type: str
    """`branch` or `tag`; a later version of Iceberg may know others."""


class _TableMetadata(BaseModel):
    """The fields that are read. Others may have types that are unknown here."""

    format_version: int = Field(alias="format-version")
    """Of the table format: 1, 2 or 3."""
    current_snapshot_id: int | None = Field(None, alias="current-snapshot-id")
    """Newest snapshot of the main branch; None or -1 for an empty table."""
    refs: Mapping[str, _Ref] = {}
    """Branches and tags by name; format 1 may have none, not even `main`."""


class _Answer(BaseModel):
    """A table as a REST catalog sends it."""

    metadata: _TableMetadata
    """The parts of the metadata that name snapshots."""


def parse_file(content: bytes) -> Heads:
    """Return the branches of a metadata file. Raises ValueError."""
    return _build_heads(_TableMetadata.model_validate_json(content))


def parse_answer(content: bytes) -> Heads:
    """Return the branches in a REST catalog's answer to a load. Raises ValueError."""
    return _build_heads(_Answer.model_validate_json(content).metadata)


def find_newest_snapshot(heads: Heads, table: str, branch: str) -> int | None:
    """Return the snapshot of a branch, None for an empty table; raises BranchNotFound."""
    # A table without a snapshot has no branch yet, but `main` is always meant to be there.
    if branch not in heads and branch != MAIN:
        raise BranchNotFound(f"{table} has no branch {branch!r}")
    return heads.get(branch)


def _build_heads(table: _TableMetadata) -> Heads:
    heads = {name: ref.snapshot_id for name, ref in table.refs.items() if ref.type == "branch"}
    if len(heads) > MAX_BRANCHES:
        raise ValueError(f"more than {MAX_BRANCHES} branches")
    if table.current_snapshot_id not in (None, _NO_SNAPSHOT):
        # Format version 1 has no refs: `main` is then the current snapshot.
        heads.setdefault(MAIN, table.current_snapshot_id)
    return heads
