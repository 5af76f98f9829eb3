"""Read and change the tags of an Iceberg table.

A change of several tags is one commit of the table's metadata. This module must not know what a tag
is for.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.table.tables import IcebergTable

_REF = "org.apache.iceberg.SnapshotRef"


@dataclass(frozen=True, kw_only=True)
class Tag:
    """A tag of a table."""

    snapshot_id: int
    """The snapshot that it names, and protects from expiration."""
    max_age_ms: int | None
    """Age of the snapshot, not of the tag, at which an expiration removes both; None: never."""


def find(table: IcebergTable, name: str) -> Tag | None:
    """Return the tag of that name, or None."""
    # Two calls at most: it is asked at every poll of every table.
    reference = table.java.refs().get(name)
    if reference is None or not reference.isTag():
        return None
    age = reference.maxRefAgeMs()
    return Tag(
        snapshot_id=int(reference.snapshotId()), max_age_ms=None if age is None else int(age)
    )


def list_names(table: IcebergTable) -> list[str]:
    """Return the names of all tags."""
    bridge = table.bridge
    names, references = bridge.list_items(table.java.refs())
    is_tag = bridge.read_texts(bridge.map(references, _REF, "isTag"))
    return [
        name for name, tag in zip(bridge.read_texts(names), is_tag, strict=True) if tag == "true"
    ]


def change(
    table: IcebergTable, *, put: Mapping[str, Tag] | None = None, remove: Collection[str] = ()
) -> None:
    """Create or move the tags of `put`, and remove those of `remove`, which have to exist."""
    if not put and not remove:
        return
    with translate_source_errors(table.name):
        changes = table.java.manageSnapshots()
        for name, tag in (put or {}).items():
            # Iceberg has no "create or replace" for tags.
            exists = find(table, name) is not None
            (changes.replaceTag if exists else changes.createTag)(name, tag.snapshot_id)
            if tag.max_age_ms is not None:
                changes.setMaxRefAgeMs(name, tag.max_age_ms)
        for name in remove:
            changes.removeTag(name)
        changes.commit()
    # The commit changed the metadata: without this the table would not show its own tags.
    table.refresh()
