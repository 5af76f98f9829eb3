"""Compares an index with what was asked for when it was created: index templates merge into it.

Only what changes documents, hides them or voids the protocol is compared; how an index is
searched, stored and placed is its owner's business. It must not know why an index is created.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opensearchpy.exceptions import RequestError

from icdc_api.errors import IcdcError, MappingInvalid, TargetInvalid, TargetUnavailable
from icdc_api.spec.indices.index_settings import (
    GC_DELETES,
    VECTORS_DERIVED,
    find_harmful,
    uses_vectors,
)
from icdc_spark.opensearch.client.acknowledgements import require_acknowledged
from icdc_spark.opensearch.client.connection import Client
from icdc_spark.opensearch.client.error_answers import find_shard_limit, parse_error_type
from icdc_spark.opensearch.client.target_errors import repeat_passing, translate

FIXED_SETTINGS = {
    "index.default_pipeline": "_none",
    "index.final_pipeline": "_none",
    "index.translog.durability": "request",
    "index.gc_deletes": GC_DELETES,
}
"""Asked for in every index, so that no template can set them otherwise."""
_REPLICAS = "index.number_of_replicas"
_COPIES = frozenset({"index.auto_expand_replicas", _REPLICAS})
_COPIES_REFUSED = (
    "total awareness attributes [",
    "cannot be greater than number of shard copies [",
)
"""In the reason of a cluster that wants a copy in each zone, or of an index that waits for more."""
_DEFAULTS = {
    # Decimals are sent as text, and would be refused.
    "index.mapping.coerce": True,
}
"""Asked for unless the spec says otherwise, so that no template does."""
_NAME_TAKEN = frozenset({"resource_already_exists_exception", "invalid_index_name_exception"})
"""Error types of a name that an index has, or an alias."""
_ACCEPTING = ("coerce", "format")
"""Parameters of a field that decide which values it takes; a legacy template may add them."""
_TAKING = re.compile(r"(strict_)?date_optional_time")
"""Formats of dates that take each of ours."""
_LIKEWISE = re.compile(r"strict_date_time_no_millis|epoch_millis|(yyyy|uuuu)-MM-dd\b.*")
"""Formats that read none of ours as another date; epoch_second would do so with a number."""
_ROOT = ("dynamic", "_source", "_routing")
"""Parts of a mapping that concern whole documents; an absent one is the server's default."""


@dataclass(frozen=True)
class CreatedIndex:
    """An index as the server has it."""

    name: str
    """Its name."""
    uuid: str
    """Its UUID; an index of the same name that is created later has another one."""
    settings: Mapping[str, Any]
    """Its settings by their flat names, such as `index.refresh_interval`."""
    mapping: Mapping[str, Any]
    """Its mapping."""
    aliases: Mapping[str, Any]
    """The aliases that point to it."""


def read_index(client: Client, name: str) -> CreatedIndex:
    """Return the index `name` as it is; raises NotFoundError where there is none."""
    index = client.indices.get(index=name, params={"flat_settings": "true"})[name]
    settings = index["settings"]
    return CreatedIndex(name, settings["index.uuid"], settings, index["mappings"], index["aliases"])


def create_index(
    client: Client,
    name: str,
    body: Mapping[str, Any],
    *,
    alias: str | None = None,
    wanted: Mapping[str, Any] | None = None,
) -> CreatedIndex:
    """Create an index with `settings` and `mappings` of `body`, and return it as it came to be.

    Where the cluster refuses so many copies as `body` asks for, the number is that of `wanted`, or
    the cluster's own. Raises TargetInvalid, with the index removed again, if it is not what was
    asked for.
    """
    # Ours last: a setting of the request wins over one of a template.
    settings = {**_DEFAULTS, **body["settings"], **FIXED_SETTINGS}
    try:
        made = client.indices.create(index=name, body={**body, "settings": settings})
    except RequestError as error:
        if not _refuses_copies(error):
            raise
        settings = {key: value for key, value in settings.items() if key not in _COPIES}
        settings |= {key: value for key, value in (wanted or {}).items() if key in _COPIES}
        made = client.indices.create(index=name, body={**body, "settings": settings})
    # Before it is read back: an index that is not there yet would be taken for a deleted one.
    require_acknowledged(made, f"index {name!r}")
    # Read back: index templates that match the name are merged in without a word.
    created = read_index(client, name)
    if alias is not None and uses_vectors(created.settings) and VECTORS_DERIVED not in settings:
        # Switched on by a template. It cannot be set later, nor where they are not used.
        client.indices.delete(index=name, params={"ignore": 404})
        more = {**body["settings"], VECTORS_DERIVED: False}
        return create_index(client, name, {**body, "settings": more}, alias=alias, wanted=wanted)
    try:
        check_index(created, body["mappings"], alias=alias)
    except TargetInvalid:
        # Left behind it would be found by the next attempt, and by readers of a wildcard.
        client.indices.delete(index=name, params={"ignore": 404})
        raise
    return created


def create_for_ourselves(client: Client, name: str, body: Mapping[str, Any]) -> bool:
    """Create an index that no reader uses, as `create_index`; False where the name is taken.

    Raises TargetInvalid where it is refused: the spec has no part in it, so that a template has.
    """
    try:
        create_index(client, name, body)
    except RequestError as error:
        # Two tasks or runs at once, say. Of a request that was forwarded no type may be given.
        is_taken = parse_error_type(error.info) in _NAME_TAKEN
        if is_taken or client.indices.exists(index=name, params={"expand_wildcards": "all"}):
            return False
        if find_shard_limit(str(error.info)):
            raise
        raise TargetInvalid(
            f"OpenSearch refused to create index {name!r}: {describe_refusal(error)}. Change the "
            "index template that matches this name, or give it another pattern."
        ) from error
    return True


def choose_copies(client: Client, name: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the setting that gives a filled index its replicas; none where it has them already.

    `wanted`: the flat settings of the spec. Where they do not say how many, there is one.
    """
    # With it OpenSearch sets the number itself, and would undo ours. `false` is its default.
    if str(wanted.get("index.auto_expand_replicas") or "false").lower() != "false":
        return {}
    if wanted.get(_REPLICAS) is None:
        settings = client.indices.get_settings(index=name, name=_REPLICAS)
        now = settings[name]["settings"].get("index", {}).get("number_of_replicas", 0)
        # The cluster has refused an index without copies, and may refuse any other number.
        if int(now) > 0:
            return {}
    return {_REPLICAS: wanted.get(_REPLICAS, 1)}


@repeat_passing
def check_settings(client: Client, name: str) -> None:
    """Raise TargetInvalid where settings that somebody changed later break the index's promise."""
    problems = [
        f"{key} is {value} ({why})"
        for key, value, why in find_harmful(read_index(client, name).settings)
    ]
    if problems:
        raise TargetInvalid(
            f"The settings of index {name!r} were changed: {'; '.join(problems[:5])}. Change them "
            "back, then raise spec.resync.nonce if documents were written meanwhile."
        )


def check_index(
    created: CreatedIndex, mapping: Mapping[str, Any], *, alias: str | None = None
) -> None:
    """Raise TargetInvalid where `created` is not what was asked for with `mapping`.

    `alias`, the one that readers use, must not point to an index that is still to be filled.
    """
    problems = [f"{name} is {value} ({why})" for name, value, why in find_harmful(created.settings)]
    problems += _list_differences(mapping, created.mapping)
    if alias is not None and alias in created.aliases:
        problems.append(f"alias {alias!r} points to it already")
    if problems:
        raise TargetInvalid(
            f"Index {created.name!r} was not created as requested: {'; '.join(problems[:5])}. "
            "Change the index template that matches this name, or give it another pattern."
        )


def translate_refusal(client: Client, what: str, error: RequestError) -> IcdcError:
    """Return the error for an index, or settings of one, that the server refuses.

    `what` it refused, as the rest of a sentence.
    """
    if parse_error_type(error.info) == "resource_already_exists_exception":
        return TargetUnavailable(
            f"OpenSearch refused {what}, as somebody else has just created it. The step is retried."
        )
    if find_shard_limit(str(error.info)):
        return translate(error, client.connection)
    return MappingInvalid(
        f"OpenSearch refused {what}; check sink.opensearch.indexSettings and tables[].mapping, and "
        f"index templates for its name: {describe_refusal(error)}"
    )


def describe_refusal(error: RequestError) -> str:
    """Return why the server refused settings or a mapping: its reason quotes these, not rows."""
    details = error.info.get("error", {}) if isinstance(error.info, dict) else {}
    # A text where http.detailed_errors.enabled is false.
    reason = details.get("reason") if isinstance(details, dict) else details
    return str(reason or parse_error_type(error.info))[:300].rstrip(".;")


def _refuses_copies(error: RequestError) -> bool:
    """Return whether the number of copies is refused; also where nobody says what is."""
    details = error.info.get("error") if isinstance(error.info, dict) else None
    reason = str(details.get("reason")) if isinstance(details, dict) else ""
    return isinstance(details, str) or any(words in reason for words in _COPIES_REFUSED)


def _list_differences(asked: Mapping[str, Any], created: Mapping[str, Any]) -> Iterator[str]:
    for key in _ROOT:
        if _normalise(asked.get(key)) != _normalise(created.get(key)):
            yield f"its mapping has {key} {created.get(key)!r} instead of {asked.get(key)!r}"
    yield from _list_other_types(asked, created, "")


def _normalise(value: object) -> object:
    """Return a comparable value: `dynamic` may be true or "true", an enabled `_source` absent."""
    if isinstance(value, bool):
        return str(value).lower()
    return None if value in ({}, {"enabled": True}, {"required": False}) else value


def _list_other_types(
    asked: Mapping[str, Any], created: Mapping[str, Any], path: str
) -> Iterator[str]:
    """Yield the fields that have another type than asked for, or none, or take other values."""
    for name, field in asked.get("properties", {}).items():
        there = created.get("properties", {}).get(name, {})
        # OpenSearch leaves out the type of an object; a missing field has no entry at all.
        wanted, actual = field.get("type", "object"), there.get("type", "object" if there else None)
        if wanted != actual:
            yield f"field {path}{name} is mapped as {actual} instead of {wanted}"
            continue
        for key in _ACCEPTING:
            # One that was asked for and is the default is left out of the answer.
            if key in there and key not in field and not _takes_ours(key, there[key]):
                yield f"field {path}{name} has {key} {there[key]!r}"
        yield from _list_other_types(field, there, f"{path}{name}.")


def _takes_ours(key: str, value: object) -> bool:
    """Return whether a field with such a `coerce` or `format` takes each of our values as it is."""
    if key == "coerce":
        return value in (True, "true")
    formats = str(value).split("||")
    return any(map(_TAKING.fullmatch, formats)) and all(
        _TAKING.fullmatch(one) or _LIKEWISE.fullmatch(one) for one in formats
    )
