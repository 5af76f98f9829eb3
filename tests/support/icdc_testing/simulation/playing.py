"""Plays worlds by their seeds, shrinks those that break a promise, and prints their stories."""

from collections.abc import Callable
from dataclasses import dataclass

from icdc_testing.simulation import border
from icdc_testing.simulation.befalling.events import WorldEvent, draw_events
from icdc_testing.simulation.world import World

Player = Callable[[int, list[WorldEvent]], str | None]


@dataclass(frozen=True)
class BrokenWorld:
    """A world that broke a promise."""

    seed: int
    problem: str
    events: list[WorldEvent]


def draw(seed: int) -> list[WorldEvent]:
    """Return the events of the world of a seed."""
    return draw_events(border.make_random(seed, "events"))


def play(seed: int, events: list[WorldEvent]) -> str | None:
    """Return what is broken in a world; None if nothing is."""
    return World(seed, events).play()


def try_world(seed: int) -> BrokenWorld | None:
    """Play the world of a seed."""
    events = draw(seed)
    try:
        problem = play(seed, events)
    except Exception as error:
        error.add_note(f"in the world of seed {seed}")
        raise
    return None if problem is None else BrokenWorld(seed, problem, events)


def shrink(
    failure: BrokenWorld, play_again: Callable[[int, list[WorldEvent]], str | None] = play
) -> BrokenWorld:
    """Drop events while the world still breaks a promise."""
    events, problem, position = failure.events, failure.problem, 0
    while position < len(events):
        fewer = events[:position] + events[position + 1 :]
        again = play_again(failure.seed, fewer)
        if again is None:
            position += 1
        else:
            events, problem, position = fewer, again, 0
    return BrokenWorld(failure.seed, problem, events)


def write_story(failure: BrokenWorld) -> str:
    """Return the story of a world, line by line, and what is broken at its end."""
    world = World(failure.seed, failure.events, story=True)
    problem = world.play()
    events = "\n".join(f"  {event}" for event in failure.events)
    story = "\n".join(world.lines)
    return f"seed {failure.seed}\nevents\n{events}\nstory\n{story}\nbroken: {problem}"
