"""The tags of an Iceberg table. Each change of several tags is one commit of the table's metadata.

It must not know what a tag is for.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from icdc_spark.iceberg.jvm.errors import source_errors
from icdc_spark.iceberg.table.tables import IcebergTable

_REF = "org.apache.iceberg.SnapshotRef"


@dataclass(frozen=True, kw_only=True)
class Tag:
    """What a tag says."""

    snapshot_id: int
    max_age_ms: int | None
    """Age of the snapshot, not of the tag, at which an expiration removes both; None: never."""


def find(table: IcebergTable, name: str) -> Tag | None:
    """The tag of that name. One call or two, because it is asked at every look at every table."""
    reference = table.java.refs().get(name)
    if reference is None or not reference.isTag():
        return None
    age = reference.maxRefAgeMs()
    return Tag(
        snapshot_id=int(reference.snapshotId()), max_age_ms=None if age is None else int(age)
    )


def names(table: IcebergTable) -> list[str]:
    """The names of all tags."""
    bridge = table.bridge
    found, references = bridge.items(table.java.refs())
    is_tag = bridge.texts(bridge.map(references, _REF, "isTag"))
    return [name for name, tag in zip(bridge.texts(found), is_tag, strict=True) if tag == "true"]


def change(
    table: IcebergTable, *, put: Mapping[str, Tag] | None = None, remove: Collection[str] = ()
) -> None:
    """Creates or moves the tags of `put`, and removes those of `remove`, which have to exist."""
    if not put and not remove:
        return
    with source_errors(table.name):
        changes = table.java.manageSnapshots()
        for name, tag in (put or {}).items():
            exists = find(table, name) is not None
            (changes.replaceTag if exists else changes.createTag)(name, tag.snapshot_id)
            if tag.max_age_ms is not None:
                changes.setMaxRefAgeMs(name, tag.max_age_ms)
        for name in remove:
            changes.removeTag(name)
        changes.commit()
    table.refresh()
