"""What writers and maintenance do to the table."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from icdc_testing.simulation.world import World

KEYS = 6


def commit(world: "World", share: float) -> None:
    """Commit an insert, an update, a delete, or several of them at once."""
    random, lake = world.random, world.lake
    rows = lake.rows[lake.head] if lake.head is not None else {}
    changes: dict[int, int | None] = {}
    for _ in range(random.choice((1, 1, 2, 4))):
        key = random.randrange(KEYS)
        if key in rows and random.random() < 0.45:
            changes[key] = None
        else:
            # Some values are refused by the index.
            value = random.randrange(1, 1000)
            changes[key] = -value if random.random() < 0.2 else value
    lake.commit(changes, world.schedule.now, "overwrite")
    world.cluster.notify()


def insert(world: "World", share: float) -> None:
    """Commit a row of a key that is not there."""
    lake = world.lake
    rows = lake.rows[lake.head] if lake.head is not None else {}
    key = min(set(range(KEYS + 1)) - rows.keys(), default=KEYS)
    lake.commit({key: 1 + int(share * 1000)}, world.schedule.now, "append")
    world.cluster.notify()


def commit_refused(world: "World", share: float) -> None:
    """Commit a row that the index refuses."""
    world.lake.commit({int(share * KEYS): -1}, world.schedule.now, "overwrite")
    world.cluster.notify()


def mend_refused(world: "World", share: float) -> None:
    """Commit rows that the index takes in place of those that it refuses."""
    lake = world.lake
    rows = lake.rows[lake.head] if lake.head is not None else {}
    mended: dict[int, int | None] = {key: -value for key, value in rows.items() if value < 0}
    if mended:
        lake.commit(mended, world.schedule.now, "overwrite")
        world.cluster.notify()


def take_back(world: "World", share: float) -> None:
    """Commit the reverse of the last commit: what it inserted is deleted, and so on."""
    lake = world.lake
    parent = lake.snapshots[lake.head].parent_id if lake.head in lake.snapshots else None
    if lake.head is None or parent is None:
        return
    before, after = lake.rows[parent], lake.rows[lake.head]
    changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    lake.commit({key: before.get(key) for key in changed}, world.schedule.now, "overwrite")
    world.cluster.notify()


def roll_back(world: "World", share: float) -> None:
    """Set the current snapshot to any that is retained."""
    world.lake.set_head(share)
    world.cluster.notify()


def expire(world: "World", share: float) -> None:
    """Expire all snapshots that nothing retains."""
    world.lake.expire()
    world.owe_export("expired")


def recreate_table(world: "World", share: float) -> None:
    """Drop the table and create it again."""
    world.lake.recreate(world.schedule.now)
    world.owe_export("table created again")
    world.cluster.notify()
