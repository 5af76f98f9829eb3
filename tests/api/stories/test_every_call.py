"""An operator dies, or is disturbed, at every single call to a real API server of each story.

A share of all, another by each seed, unless ICDC_SOAK is set.
"""

import random
from collections.abc import Callable, Iterator

import pytest

from support_cuts import DISTURBANCES, Cut, Fault
from support_kill_playing import Place, play_cuts, share, undisturbed
from support_kill_stories import STORIES, Story

pytestmark = pytest.mark.api


def cuts(calls: list[str]) -> Iterator[Cut]:
    """Every call in both ways to die, and each of the others at every call in turn.

    A read leaves nothing on the server: to die with its answer is to die before the next call.
    """
    for at, call in enumerate(calls, 1):
        yield Cut(at, Fault.KILLED_BEFORE)
        if not call.startswith("GET"):
            yield Cut(at, Fault.KILLED_AFTER)
        yield Cut(at, DISTURBANCES[at % len(DISTURBANCES)])


@pytest.mark.parametrize("story", STORIES, ids=str)
def test_an_operator_may_die_between_any_two_calls(
    story: Story,
    place: Callable[[Story], Place],
    rng: random.Random,
    record_property: Callable[[str, object], None],
) -> None:
    model = undisturbed(place(story))
    everything = list(cuts(model.calls))
    tried = share(rng, everything)
    of = f"{len(tried)} of {len(everything)} faults at {len(model.calls)} calls"
    record_property("tried", f"{of}: {story}")
    play_cuts(place(story), model, tried)
