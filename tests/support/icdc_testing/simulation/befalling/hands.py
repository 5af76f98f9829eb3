"""What other hands, and failing disks, do to the target."""

from typing import TYPE_CHECKING

from icdc_testing.simulation.befalling.commits import KEYS
from icdc_testing.simulation.model.stored_index import StoredIndex
from icdc_testing.simulation.oracle import ALIAS, STATE

if TYPE_CHECKING:
    from icdc_testing.simulation.world import World


def reopen_shards(world: "World", share: float) -> None:
    """Move all shards: they forget the versions of deleted documents."""
    for index in world.target.indices.values():
        index.forget_deletes()


def delete_state(world: "World", share: float) -> None:
    """Delete the state document: the documented way to force a re-export."""
    index = world.target.find(STATE)
    if index is not None and ALIAS in index.documents:
        index.write(ALIAS, None, world.schedule.now)
        _distrust(world, "its state document was deleted")


def delete_state_index(world: "World", share: float) -> None:
    """Delete the whole index of state documents."""
    if world.target.indices.pop(STATE, None) is not None:
        _distrust(world, "icdc-state was deleted")


def put_back_state(world: "World", share: float) -> None:
    """Put back a copy of the state document, by a client or by a restore of icdc-state."""
    index, copies = world.target.indices.get(STATE), world.state_copies
    if index is None or not copies:
        return
    if share < 0.5:
        source = copies[int(share * 2 * len(copies))].documents.get(ALIAS)
        if source is not None:
            index.write(ALIAS, source.source, world.schedule.now)
    else:
        copy = copies[int((share - 0.5) * 2 * len(copies))].copy()
        copy.history, copy.term = world.target.make_history(), index.term + 1
        copy.uuid = index.uuid
        world.target.indices[STATE] = copy
    _distrust(world, "an older state document was put back")


def _find_served(world: "World") -> StoredIndex | None:
    state = world.oracle.read_state()
    name = state["index"] if state else None
    return world.target.indices.get(name) if name else None


def restore_index(world: "World", share: float) -> None:
    """Close the index and restore an older copy over it: it keeps its UUID."""
    index = _find_served(world)
    copies = world.index_copies.get(index.name, []) if index else []
    if index is None or not copies:
        return
    old = copies[int(share * len(copies))]
    if old.uuid != index.uuid:
        return
    copy = old.copy()
    copy.history, copy.damaged = world.target.make_history(), "restored"
    world.owe_export("restored")
    copy.aliases = index.aliases
    world.target.indices[index.name] = copy


def lose_writes(world: "World", share: float) -> None:
    """Lose acknowledged writes: a stale copy becomes the primary, or a disk had lied."""
    index = _find_served(world)
    copies = world.index_copies.get(index.name, []) if index else []
    if index is None or not copies:
        return
    old = copies[int(share * len(copies))]
    if old.uuid != index.uuid or old.max_seq_no >= index.max_seq_no:
        return
    copy = old.copy()
    copy.damaged, copy.aliases, copy.term = "lost writes", index.aliases, index.term + 1
    state = world.oracle.read_state()
    at_rest = state is not None and state["intent"] is None and state["shards"] is not None
    recorded = max(state["shards"]["maxSeqNos"]) if at_rest and state else -1
    # A stale copy that is made the primary has a history of its own. A disk that lost what it had
    # confirmed has not: at rest a number below the recorded one shows it, and after the next batch
    # that there are fewer than were acknowledged. Amid a batch as many numbers may have been taken
    # by attempts that nobody counts: the protocol leaves that to verify.
    if share < 0.5 or old.max_seq_no >= recorded:
        copy.history = world.target.make_history()
    world.owe_export("lost writes")
    world.target.indices[index.name] = copy


def delete_index(world: "World", share: float) -> None:
    """Delete the index that readers use."""
    index = _find_served(world)
    if index is not None:
        del world.target.indices[index.name]
        world.owe_export("index deleted")


def delete_alias(world: "World", share: float) -> None:
    """Delete the alias."""
    for index in world.target.indices.values():
        index.aliases.pop(ALIAS, None)


def move_alias(world: "World", share: float) -> None:
    """Point the alias to an older index of the pipeline, as a sleeping driver may."""
    served = _find_served(world)
    older = [
        index
        for name, index in world.target.indices.items()
        if name.startswith(f"{ALIAS}-0")
        and ALIAS not in index.aliases
        # A newer one is still to be filled: no driver has led readers to it.
        and served is not None
        and name <= served.name
    ]
    if not older:
        return
    for index in world.target.indices.values():
        index.aliases.pop(ALIAS, None)
    older[0].aliases[ALIAS] = {}
    world.oracle.moved_by_hand[older[0].name] = world.schedule.now


def _touch(world: "World", index: StoredIndex | None, share: float, *, edit: bool) -> None:
    # A write after a loss would hide it from whoever compares sequence numbers.
    if index is None or index.damaged:
        return
    keys = sorted(index.documents)
    if edit and (not keys or share < 0.3):
        keys = [f"k{int(share * 1000) % KEYS}"]
    if keys:
        key = keys[int(share * 997) % len(keys)]
        index.write(key, {"id": 0, "value": 5000} if edit else None, world.schedule.now)
        index.touched.add(key)


def edit_document(world: "World", share: float) -> None:
    """Write a document into the index that readers use."""
    _touch(world, _find_served(world), share, edit=True)


def delete_document(world: "World", share: float) -> None:
    """Delete a document of the index that readers use."""
    _touch(world, _find_served(world), share, edit=False)


def delete_from_export(world: "World", share: float) -> None:
    """Delete a document of the index that the next export fills, or write one into it."""
    world.ambushes.append(share)


def spring_ambush(world: "World") -> None:
    """Do so, once the new index holds documents."""
    state = world.oracle.read_state()
    intent = state["intent"] if state else None
    index = world.target.indices.get(intent["index"]) if intent else None
    if intent is not None and intent["kind"] == "Export" and index is not None and index.documents:
        share = world.ambushes.pop()
        _touch(world, index, share, edit=share < 0.3)


def _distrust(world: "World", why: str) -> None:
    """Judge no index that exists now: what is owed is a new one."""
    world.owe_export(why)
    for name, index in world.target.indices.items():
        if name.startswith(f"{ALIAS}-0"):
            index.damaged = why
