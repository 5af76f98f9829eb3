"""What may befall a world, and how often; each event is one line of its story."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from icdc_testing.simulation.befalling import commits, hands, machines
from icdc_testing.simulation.befalling.themes import ROLLBACK_THEMES, THEMES, Theme
from icdc_testing.simulation.model.network import FAULTS

if TYPE_CHECKING:
    from icdc_testing.simulation.world import World


@dataclass(frozen=True)
class WorldEvent:
    """Something that happens when the world has made so many steps."""

    step: int
    """The number of requests and reconciles before it."""
    kind: str
    share: float
    """A number from 0 to 1, from which the event takes its details."""

    def __str__(self) -> str:
        return f"step {self.step}: {self.kind} ({self.share:.3f})"


def arm(kind: str, fault: str) -> Callable[["World", float], None]:
    """Return the act that lets `fault` befall the next request of a kind."""

    def act(world: "World", share: float) -> None:
        world.network.armed.setdefault(kind, []).append((fault, share))

    return act


ACTS: Mapping[str, Callable[["World", float], None]] = {
    "commit": commits.commit,
    "insert a row": commits.insert,
    "commit what is refused": commits.commit_refused,
    "mend what is refused": commits.mend_refused,
    "take back the last commit": commits.take_back,
    "roll back": commits.roll_back,
    "expire snapshots": commits.expire,
    "re-create the table": commits.recreate_table,
    "kill the driver": machines.kill_driver,
    "kill the driver, its task goes on": machines.orphan_task,
    "kill a task": machines.kill_task,
    "pause the driver": machines.pause_driver,
    "freeze the driver": machines.freeze_driver,
    "lose the driver's node": machines.lose_node,
    "kill the operator": machines.kill_operator,
    "show the operator an old view": machines.show_old_view,
    "lose the status": machines.lose_status,
    "create the pipeline again": machines.recreate_pipeline,
    "ask for an export": machines.ask_export,
    "ask for a comparison": machines.ask_comparison,
    "ask for a rollback": machines.ask_rollback,
    "remove the request's mode": machines.tidy_request,
    "open the shards again": hands.reopen_shards,
    "delete the state document": hands.delete_state,
    "delete icdc-state": hands.delete_state_index,
    "put back an older state document": hands.put_back_state,
    "restore the index in place": hands.restore_index,
    "lose the newest writes": hands.lose_writes,
    "delete the index": hands.delete_index,
    "delete the alias": hands.delete_alias,
    "move the alias back": hands.move_alias,
    "edit a document": hands.edit_document,
    "delete a document": hands.delete_document,
    "delete a document of the new index": hands.delete_from_export,
    **{
        f"{kind} request: {fault}": arm(kind, fault)
        for kind, faults in FAULTS.items()
        for fault in faults
    },
}
"""Every kind of event."""

WEIGHTS: Mapping[str, int] = {
    "commit": 40,
    "insert a row": 3,
    "commit what is refused": 3,
    "mend what is refused": 3,
    "take back the last commit": 8,
    "roll back": 3,
    "expire snapshots": 3,
    "re-create the table": 1,
    "kill the driver": 6,
    "kill the driver, its task goes on": 6,
    "kill a task": 4,
    "pause the driver": 5,
    "lose the driver's node": 6,
    "kill the operator": 4,
    "show the operator an old view": 2,
    "lose the status": 1,
    "create the pipeline again": 2,
    "ask for an export": 3,
    "ask for a comparison": 3,
    "remove the request's mode": 3,
    "open the shards again": 6,
    "delete the state document": 2,
    "delete icdc-state": 1,
    "put back an older state document": 2,
    "restore the index in place": 2,
    "lose the newest writes": 2,
    "delete the index": 1,
    "delete the alias": 2,
    "move the alias back": 2,
    "edit a document": 3,
    "delete a document": 3,
    "delete a document of the new index": 3,
}
"""How often each kind comes, beside `FAULT_WEIGHT` for each fault of a request."""
FAULT_WEIGHT = {"bulk": 5, "state": 2, "aliases": 1, "tasks": 3, "other": 1}
ROLLBACKS = ("ask for a rollback",)
"""Kinds that come in themes of their own alone: without an export before, nothing can be done."""
ROLLBACK_SHARE = 0.2
"""Of all worlds, those in which a rollback is asked for."""
FREEZES = ("freeze the driver",)
"""Kinds that come once each at most, beside others: a world is over in minutes without them."""
FREEZE_SHARE = 0.1
"""Of all worlds, those in which a driver hangs."""
STEPS = 160
"""Events are spread over so many steps of a world."""
KINDS = (3, 9)
"""From the least to the most kinds of events in one world: few of them meet more often."""


def draw_events(random: Random) -> list[WorldEvent]:
    """Return the events of a world, in their order."""
    weights = {
        kind: WEIGHTS.get(kind) or FAULT_WEIGHT[kind.partition(" request")[0]]
        for kind in ACTS
        if kind not in ROLLBACKS + FREEZES
    }
    some = random.choices(list(weights), list(weights.values()), k=random.randint(*KINDS))
    kinds = random.choices([*some, "commit"], k=random.randint(0, 6))
    drawn = [WorldEvent(random.randrange(STEPS), kind, random.random()) for kind in kinds]
    if random.random() < 0.5:
        drawn += draw_theme(random, random.choice(THEMES))
    # After all others, which are the same in worlds without it.
    if random.random() < ROLLBACK_SHARE:
        drawn += draw_theme(random, random.choice(ROLLBACK_THEMES))
    if random.random() < FREEZE_SHARE:
        drawn += [WorldEvent(random.randrange(STEPS), kind, random.random()) for kind in FREEZES]
    return sorted(drawn, key=lambda event: event.step)


def draw_theme(random: Random, theme: Theme) -> list[WorldEvent]:
    """Return the events of a theme, in its order, with more or less between them."""
    step, gap = random.randrange(STEPS // 2), random.choice((3, 12, 30))
    drawn = []
    for part in theme:
        kind, least = part if isinstance(part, tuple) else (part, 0.0)
        drawn.append(WorldEvent(step, kind, least + random.random() * (1 - least)))
        step += random.randrange(gap)
    return drawn
