"""The alias that readers use: who owns its name, and how it moves.

It moves in one `_aliases` call and nothing is ever written through it. It must not know exports.
"""

from opensearchpy.exceptions import NotFoundError

from icdc_api.errors import AliasTaken
from icdc_spark.opensearch.connection import Client
from icdc_spark.opensearch.errors import repeats
from icdc_spark.opensearch.indices import Ownership, ownership


@repeats
def current_indices(client: Client, alias: str) -> list[str]:
    """The indices that the alias points to; none if there is no such alias."""
    return _current_indices(client, alias)


def _current_indices(client: Client, alias: str) -> list[str]:
    try:
        return sorted(client.indices.get_alias(name=alias, params={"expand_wildcards": "all"}))
    except NotFoundError:
        return []


@repeats
def check_free(client: Client, owner: Ownership) -> list[str]:
    """The indices behind the alias, all of them ours; AliasTaken if the name is somebody else's."""
    return _check_free(client, owner)


def _check_free(client: Client, owner: Ownership) -> list[str]:
    alias = owner.alias
    pointed = _current_indices(client, alias)
    if not pointed and client.indices.exists(index=alias, params={"expand_wildcards": "all"}):
        raise AliasTaken(
            f"An index named {alias!r} exists and was not made by a pipeline: "
            "choose another `index`, or remove it."
        )
    for index in pointed:
        whose = ownership(client.indices.get_mapping(index=index)[index]["mappings"])
        if whose is None:
            raise AliasTaken(
                f"Alias {alias!r} points to index {index!r}, which was not made by a pipeline: "
                "choose another `index`, or remove the alias."
            )
        if whose != owner:
            raise AliasTaken(
                f"Alias {alias!r} points to index {index!r} of pipeline {whose.pipeline!r}: "
                "choose another `index`."
            )
    return pointed


@repeats
def move_alias(client: Client, owner: Ownership, to_index: str) -> list[str]:
    """Points the alias to `to_index` alone, in one step; returns the indices it left.

    Repeating a move that was made changes nothing.
    """
    before = _check_free(client, owner)
    left = [index for index in before if index != to_index]
    if before == [to_index]:
        return []
    actions = [{"remove": {"index": index, "alias": owner.alias}} for index in left]
    add = {"add": {"index": to_index, "alias": owner.alias, "is_write_index": False}}
    client.indices.update_aliases(body={"actions": [*actions, add]})
    return left
