"""Creates physical indices, puts the user's settings in force, and removes them.

A physical index is recognised by its name `<alias>-00000N`, its UUID and what its mapping's `_meta`
says about its owner. It must not know documents; the alias itself is `aliases`' business.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from opensearchpy.exceptions import NotFoundError, RequestError

from icdc_api import naming
from icdc_api.errors import Gap, MappingInvalid, TargetUnavailable
from icdc_api.spec.indices.index_settings import GC_DELETES, flatten_settings, keep_vectors
from icdc_spark.opensearch.client.acknowledgements import require_acknowledged
from icdc_spark.opensearch.client.connection import Client
from icdc_spark.opensearch.client.error_answers import SNAPSHOT_RUNS, parse_error_type
from icdc_spark.opensearch.client.shards import require_all_shards
from icdc_spark.opensearch.client.target_errors import map_errors, repeat_passing
from icdc_spark.opensearch.stores.creation import (
    choose_copies,
    create_index,
    describe_refusal,
    translate_refusal,
)

LOG = logging.getLogger(__name__)

META_KEY = "icdc"
HEALTH_SECONDS = 60
SHOWN_FIELDS = 5
"""The most fields that a message names."""
_EXPORT_SETTINGS = {
    # Nobody reads the new index, so no segment need be made visible; and a replica would index
    # every document once more. What is lost with its only copy is exported anew.
    "index.refresh_interval": "-1",
    "index.number_of_replicas": 0,
}


@dataclass(frozen=True)
class PhysicalIndex:
    """An index by name and UUID: the same name with another UUID is another index."""

    name: str
    """Its name, `<alias>-00000N`."""
    uuid: str
    """Its UUID."""


@dataclass(frozen=True)
class Ownership:
    """The owner of an index, as its mapping's `_meta` has it."""

    pipeline: str
    """The pipeline, as namespace/name."""
    alias: str
    """The alias that the index was created for."""


def with_ownership(mapping: Mapping[str, Any], owner: Ownership) -> dict[str, Any]:
    """Return the mapping with the owner merged into its `_meta`; other entries stay."""
    merged = deepcopy(dict(mapping))
    meta = merged.setdefault("_meta", {})
    mine = {"pipeline": owner.pipeline, "alias": owner.alias}
    meta[META_KEY] = {**meta.get(META_KEY, {}), **mine}
    return merged


def read_ownership(mapping: Mapping[str, Any]) -> Ownership | None:
    """Return the owner of an index by its mapping; None if a pipeline did not create it."""
    mine = mapping.get("_meta", {}).get(META_KEY)
    if not isinstance(mine, dict) or not {"pipeline", "alias"} <= mine.keys():
        return None
    return Ownership(pipeline=str(mine["pipeline"]), alias=str(mine["alias"]))


@map_errors
def list_indices(client: Client, alias: str) -> dict[str, Ownership | None]:
    """Return every index that is named like a physical index of `alias`, with its owner."""
    mappings = client.indices.get_mapping(
        index=f"{alias}-*", params={"expand_wildcards": "all", "ignore_unavailable": "true"}
    )
    # The wildcard also finds the dead letters of this alias, and indices of `<alias>-other`.
    pattern = re.compile(re.escape(alias) + r"-\d{6,}")
    return {
        name: read_ownership(body["mappings"])
        for name, body in mappings.items()
        if pattern.fullmatch(name)
    }


def _list_taken_names(client: Client, alias: str) -> set[str]:
    """Return the names like those of physical indices of `alias` that exist."""
    pattern = f"{alias}-*"
    params = {"expand_wildcards": "all", "ignore_unavailable": "true"}
    indices = client.indices.get_alias(index=pattern, name=pattern, params=params)
    # The alias of another pipeline, say: no index can be made under its name.
    named = {name for body in indices.values() for name in body["aliases"]}
    physical = {name for name in named if naming.parse_physical_number(alias, name) is not None}
    return {*list_indices(client, alias), *physical}


@map_errors
def create(
    client: Client,
    owner: Ownership,
    mapping: Mapping[str, Any],
    index_settings: Mapping[str, Any],
    *,
    above: int = 0,
) -> PhysicalIndex:
    """Create an empty physical index, set up for an export, under a number never used before.

    The number is one more than the greatest that exists (whoever made it, as an index or as an
    alias) and than `above`, the greatest that the state document remembers: a late write of an
    abandoned export must find no index under its name. `index_settings` are the user's; refresh and
    replicas come into force by `finish_export`.
    """
    numbers = [_parse_number(name) for name in _list_taken_names(client, owner.alias)]
    name = naming.name_physical_index(owner.alias, max([above, *numbers]) + 1)
    # Ours last: the user's refresh and replicas wait until the export is complete.
    wanted = keep_vectors(flatten_settings(index_settings))
    settings = {**wanted, **_EXPORT_SETTINGS}
    body: dict[str, Any] = {"settings": settings, "mappings": with_ownership(mapping, owner)}
    try:
        created = create_index(client, name, body, alias=owner.alias, wanted=wanted)
    except RequestError as error:
        raise translate_refusal(client, f"to create index {name!r}", error) from error
    return PhysicalIndex(name, created.uuid)


@repeat_passing
def read_uuid(client: Client, index: str) -> str:
    """Return the UUID of an index; Gap if none has that name (an alias is not an index)."""
    return _read_uuid(client, index)


def _read_uuid(client: Client, index: str) -> str:
    try:
        settings = client.indices.get_settings(index=index, name="index.uuid")
    except NotFoundError as error:
        confirm_missing(client, index)
        raise Gap(f"Index {index!r} does not exist any more.") from error
    if index not in settings:
        # OpenSearch answers under the name of the index that the alias leads to.
        raise Gap(f"{index!r} is an alias now, not the index that the state document names.")
    return str(settings[index]["settings"]["index"]["uuid"])


def confirm_missing(client: Client, index: str) -> None:
    """Return if a 404 is to be believed; raise TransportError or TargetUnavailable otherwise.

    A node that has started and not yet recovered its state knows no index, and answers 404 to
    questions about one. It refuses to read documents, which this tries.
    """
    try:
        # With a routing: where documents have one, the server asks for it before it looks.
        client.get(index=index, id="icdc-guard", params={"routing": "icdc-guard"})
    except NotFoundError as error:
        if parse_error_type(error.info) == "index_not_found_exception":
            return
    except RequestError:
        # The name is an alias with a routing of its own, so there is an index.
        pass
    raise TargetUnavailable(
        f"OpenSearch answers that index {index!r} does not exist, but it cannot know that yet: it "
        "may be starting. The request is repeated."
    )


@repeat_passing
def finish_export(client: Client, index: str, index_settings: Mapping[str, Any]) -> int:
    """Put the user's refresh and replicas in force, refresh, and return the number of documents.

    Without a setting of the user: the server's refresh, and one replica, or those that the index
    has had from its beginning. On a single node that leaves the index yellow, which is accepted; an
    index that is not even that is TargetUnavailable.
    """
    wanted = flatten_settings(index_settings)
    settings: dict[str, Any] = {
        # None puts the server's default back.
        "index.refresh_interval": wanted.get("index.refresh_interval"),
        "index.gc_deletes": GC_DELETES,
    }
    settings |= choose_copies(client, index, wanted)
    try:
        changed = client.indices.put_settings(index=index, body=settings)
    except RequestError as error:
        # Only now, as they were left out while it was filled. The server may not say which it is.
        what = f"refresh_interval or number_of_replicas of index {index!r}"
        raise translate_refusal(client, what, error) from error
    require_acknowledged(changed, f"settings of index {index!r}")
    health = client.cluster.health(
        index=index,
        params={
            "wait_for_status": "yellow",
            "timeout": f"{HEALTH_SECONDS}s",
            # Without it the library takes the server's `timeout` for its own.
            "request_timeout": HEALTH_SECONDS + 30,
            "ignore": 408,
        },
    )
    if health.get("timed_out") or health.get("status") == "red":
        raise TargetUnavailable(f"Index {index!r} has shards that are not assigned.")
    return _refresh_and_count(client, index)


@repeat_passing
def refresh_and_count(client: Client, index: str) -> int:
    """Return the number of documents in the index, after making all of them visible."""
    return _refresh_and_count(client, index)


def _refresh_and_count(client: Client, index: str) -> int:
    answer = client.indices.refresh(index=index)
    if answer["_shards"]["failed"]:
        raise TargetUnavailable(f"Index {index!r} could not be refreshed on every shard.")
    # A shard that had no copy when it was to be refreshed is counted nowhere in that answer. Once
    # it has one, everything in it is visible, and it is part of this count.
    counted = client.count(index=index)
    require_all_shards(counted, f"count of index {index!r}")
    return int(counted["count"])


@repeat_passing
def read_mapping(client: Client, index: str) -> dict[str, Any]:
    """Return the mapping as the server has it; Gap if the index does not exist."""
    try:
        mappings = client.indices.get_mapping(index=index)
    except NotFoundError as error:
        confirm_missing(client, index)
        raise Gap(f"Index {index!r} does not exist any more.") from error
    return dict(mappings[index]["mappings"])


@repeat_passing
def extend_mapping(
    client: Client,
    index: str,
    mapping: Mapping[str, Any],
    owner: Ownership,
    *,
    added: Sequence[str] = (),
) -> None:
    """Add new fields, if there are any. `mapping` is the whole new mapping: `_meta` is replaced.

    Raises MappingInvalid, which names `added`, where the server refuses it.
    """
    try:
        extended = client.indices.put_mapping(index=index, body=with_ownership(mapping, owner))
        require_acknowledged(extended, f"fields of index {index!r}")
    except RequestError as error:
        names = ", ".join(f"`{name}`" for name in added[:SHOWN_FIELDS])
        more = f" and {len(added) - SHOWN_FIELDS} more" if len(added) > SHOWN_FIELDS else ""
        refused = f"the fields {names}{more}" if added else "the mapping"
        raise MappingInvalid(
            f"OpenSearch refused {refused} for index {index!r}: "
            f"{describe_refusal(error)}; see the settings of the index, such as "
            "index.mapping.total_fields.limit, and tables[].mapping"
        ) from error


@repeat_passing
def delete(client: Client, index: str) -> bool:
    """Delete an index, unless a snapshot of it is being taken; return whether there is none now."""
    try:
        client.indices.delete(index=index, params={"ignore": 404})
    except RequestError as error:
        if parse_error_type(error.info) != SNAPSHOT_RUNS:
            raise
        LOG.info("%s cannot be deleted before the end of a snapshot of it", index)
        return False
    return True


@map_errors
def drop_orphans(
    client: Client, owner: Ownership, *, keep: frozenset[str], below: int
) -> list[str]:
    """Delete physical indices of ours that are neither in `keep` nor as new as number `below`.

    Return those that are gone. Nobody reads them: a crash after `create`, an abandoned export, or a
    lost state document left them. One with a higher number may be what a newer run has just made.
    """
    orphans = [
        name
        for name, whose in list_indices(client, owner.alias).items()
        if whose == owner and name not in keep and _parse_number(name) < below
    ]
    return [name for name in orphans if delete(client, name)]


def _parse_number(name: str) -> int:
    return int(name.rpartition("-")[2])
