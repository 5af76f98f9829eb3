"""The alias that readers use: who owns its name, where it points, and how it moves.

It moves in one `_aliases` call and nothing is ever written through it. It must not know exports.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from opensearchpy.exceptions import NotFoundError, RequestError

from icdc_api.errors import AliasTaken, TargetInvalid, TargetUnavailable
from icdc_spark.opensearch.client.connection import Client
from icdc_spark.opensearch.client.error_answers import find_fault, parse_error_type
from icdc_spark.opensearch.client.target_errors import repeat_passing
from icdc_spark.opensearch.stores.indices import Ownership, PhysicalIndex, read_ownership, read_uuid

Pointing = Mapping[str, Mapping[str, Any]]
"""For each index that an alias points to: its filter, routing and visibility."""
_CARRIED = ("filter", "index_routing", "search_routing", "is_hidden")


@repeat_passing
def list_current_indices(client: Client, alias: str) -> list[str]:
    """Return the indices that the alias points to; none if there is no such alias."""
    return sorted(_read_pointing(client, alias))


def _read_pointing(client: Client, alias: str) -> Pointing:
    # Of what is behind that name alone: asked about all indices, the server refuses to answer while
    # any of them, whose ever it is, blocks the reading of its metadata. It ignores that nothing is
    # behind the name, because a node that has not recovered its state would say so too.
    params = {"expand_wildcards": "all", "ignore_unavailable": "true"}
    try:
        answer = client.indices.get_alias(index=alias, name=alias, params=params)
    except NotFoundError:
        return {}
    return {index: body["aliases"][alias] for index, body in answer.items()}


@repeat_passing
def check_free(
    client: Client, owner: Ownership, *, recorded: Collection[PhysicalIndex] = ()
) -> list[str]:
    """Return the indices behind the alias; AliasTaken if one, or the name, is somebody else's.

    An index is ours by the owner in its mapping's `_meta`. Where somebody removed that, it is ours
    if it is one of `recorded`, those that the state document names, with the same UUID.
    """
    pointing = _read_pointing(client, owner.alias)
    _require_ours(client, owner, pointing, recorded)
    return sorted(pointing)


def _require_ours(
    client: Client, owner: Ownership, pointing: Pointing, recorded: Collection[PhysicalIndex]
) -> None:
    alias = owner.alias
    # An index and an alias cannot have one name, so without an alias there may be an index.
    if not pointing and client.indices.exists(index=alias, params={"expand_wildcards": "all"}):
        raise AliasTaken(
            f"An index named {alias!r} exists and was not made by a pipeline: "
            "choose another `index`, or delete that index."
        )
    for index in sorted(pointing):
        whose = read_ownership(client.indices.get_mapping(index=index)[index]["mappings"])
        if whose is None:
            # The UUID, because an index of that name may have been made by somebody else since.
            if PhysicalIndex(index, read_uuid(client, index)) in recorded:
                continue
            raise AliasTaken(
                f"Alias {alias!r} points to index {index!r}, which was not made by a pipeline: "
                "choose another `index`, or remove the alias."
            )
        if whose != owner:
            raise AliasTaken(
                f"Alias {alias!r} points to index {index!r} of pipeline {whose.pipeline!r}: "
                "choose another `index`."
            )


@repeat_passing
def find_problem(client: Client, alias: str, index: str) -> str | None:
    """Return what is wrong if the alias does not point to `index` alone; None where nothing is."""
    return _find_problem(alias, index, _read_pointing(client, alias))


def _find_problem(alias: str, index: str, pointing: Pointing) -> str | None:
    if set(pointing) == {index}:
        return None
    where = ", ".join(sorted(pointing))
    return f"Alias {alias!r} pointed to {where}" if pointing else f"Alias {alias!r} was missing"


@repeat_passing
def restore(
    client: Client,
    owner: Ownership,
    index: str,
    *,
    require_owner: Callable[[], None],
    recorded: Collection[PhysicalIndex] = (),
) -> str | None:
    """Put the alias back where it does not point to `index` alone; return what was wrong.

    Makes one request where nothing is. Raises AliasTaken where one of the indices is not ours
    (`recorded` as for `check_free`). Other aliases of those that are recorded move along, as by
    `move_alias`: a rollback may have ended before it. `require_owner` raises Fenced if another run
    has taken over, which may have moved the alias by right.
    """
    pointing = _read_pointing(client, owner.alias)
    problem = _find_problem(owner.alias, index, pointing)
    if problem is not None:
        _require_ours(client, owner, pointing, recorded)
        left = sorted({one.name for one in recorded} & set(pointing) - {index})
        others = _build_other_actions(client, owner.alias, left, index)
        require_owner()
        _move(client, owner.alias, pointing=pointing, to_index=index, others=others)
        require_owner()
    return problem


@repeat_passing
def move_alias(
    client: Client,
    owner: Ownership,
    to_index: str,
    *,
    require_owner: Callable[[], None] = lambda: None,
    recorded: Collection[PhysicalIndex] = (),
) -> list[str]:
    """Point the alias to `to_index` alone, in one step; return the indices that it left.

    Its filter, routing and visibility move with it, and so do other aliases of the indices that it
    leaves: their readers would stay on a copy that nobody writes any more. Repeating a move that
    was made changes nothing. `require_owner` as for `restore`, `recorded` as for `check_free`.
    """
    pointing = _read_pointing(client, owner.alias)
    _require_ours(client, owner, pointing, recorded)
    left = sorted(set(pointing) - {to_index})
    if set(pointing) == {to_index}:
        return []
    # Just before, and again after: a run that has been replaced must not move the alias, and
    # must not go on as if it had.
    require_owner()
    _move(
        client,
        owner.alias,
        pointing=pointing,
        to_index=to_index,
        others=_build_other_actions(client, owner.alias, left, to_index),
    )
    require_owner()
    return left


def _move(
    client: Client,
    alias: str,
    *,
    pointing: Pointing,
    to_index: str,
    others: list[dict[str, Any]],
) -> None:
    """Move the alias from exactly the indices in `pointing`, or raise TargetUnavailable."""
    left = sorted(set(pointing) - {to_index})
    # `must_exist`: the whole request fails if somebody has moved the alias since it was read.
    actions: list[dict[str, Any]] = [_remove(index, alias) for index in left]
    if to_index not in pointing:
        carried = _find_common_pointing(alias, [pointing[index] for index in left])
        # No write index: a write through the alias is refused, and changes no document.
        actions.append(_add(to_index, alias, {**carried, "is_write_index": False}))
    try:
        client.indices.update_aliases(body={"actions": [*actions, *others]})
    except (NotFoundError, RequestError) as error:
        # `to_index` itself is missing: that is a gap, not somebody else's move. Nor is a filter.
        is_missing = parse_error_type(error.info) == "index_not_found_exception"
        if is_missing or find_fault(str(error.info)):
            raise
        raise TargetUnavailable(f"Alias {alias!r} was moved by somebody else just now.") from error
    # Read back: another request may have moved it at the same moment.
    if set(_read_pointing(client, alias)) != {to_index}:
        if not pointing:
            # There was nothing to remove, so nothing made the request fail: readers see both now.
            _take_back(client, alias, to_index)
        raise TargetUnavailable(f"Alias {alias!r} does not stay on index {to_index!r}.")


def _take_back(client: Client, alias: str, index: str) -> None:
    """Remove `index` from the alias, which another run gave to an index of its own meanwhile."""
    # It may be removed already, by the other run or by somebody else.
    with suppress(NotFoundError, RequestError):
        client.indices.update_aliases(body={"actions": [_remove(index, alias)]})


def _find_common_pointing(alias: str, left: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return filter, routing and visibility that the alias has on all indices that it leaves."""
    carried = [{key: how[key] for key in _CARRIED if key in how} for how in left]
    if any(how != carried[0] for how in carried):
        raise TargetInvalid(
            f"Alias {alias!r} points to several indices with different filters or routing, so it "
            "is not clear which of these readers should get. Remove the alias from all but one "
            "index."
        )
    return carried[0] if carried else {}


def _build_other_actions(
    client: Client, alias: str, left: list[str], to_index: str
) -> list[dict[str, Any]]:
    """Return the actions that move other aliases of the indices in `left` along."""
    actions: list[dict[str, Any]] = []
    answer = client.indices.get_alias(index=",".join(left)) if left else {}
    for index, body in answer.items():
        for name, pointing in body["aliases"].items():
            if name != alias:
                actions += [_remove(index, name), _add(to_index, name, pointing)]
    return actions


def _remove(index: str, alias: str) -> dict[str, Any]:
    return {"remove": {"index": index, "alias": alias, "must_exist": True}}


def _add(index: str, alias: str, pointing: Mapping[str, Any]) -> dict[str, Any]:
    return {"add": {"index": index, "alias": alias, **pointing}}
