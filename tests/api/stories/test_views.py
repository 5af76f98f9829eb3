"""What an operator sees may be old, or missing: the questions of Sieve, at every call and event.

Stale: for a while all that it reads is as before a call, as from a second API server that lags
behind; it lives on, or dies and starts anew with such a view. Unobserved: two events of watches in
a row never come, so that what was there between them (A, B, A) is never seen.
A share of all, another by each seed, unless ICDC_SOAK is set.
"""

import random
from collections.abc import Callable, Iterator

import pytest

from support_cuts import Cut, Fault
from support_kill_playing import Place, lived, play_all, play_cuts, share, undisturbed
from support_kill_stories import STORIES, Story
from support_kill_trial import Site, Trial

pytestmark = pytest.mark.api

Record = Callable[[str, object], None]


def stale(calls: list[str]) -> Iterator[Cut]:
    """An old view from each call on; after a write also of an operator that starts anew."""
    for at, call in enumerate(calls, 1):
        yield Cut(at, Fault.STALE)
        if not call.startswith("GET"):
            yield Cut(at, Fault.KILLED_STALE)


@pytest.mark.parametrize("story", STORIES, ids=str)
def test_a_view_of_before_does_no_harm(
    story: Story,
    place: Callable[[Story], Place],
    rng: random.Random,
    record_property: Record,
) -> None:
    model = undisturbed(place(story))
    everything = list(stale(model.calls))
    tried = share(rng, everything)
    record_property("tried", f"{len(tried)} of {len(everything)} stale views: {story}")
    views = [each.view for each in play_cuts(place(story), model, tried)]
    answered = [view.answered for view in views if view is not None]
    assert len(answered) == len(tried)
    # Only where the operator has nothing to look at for so long is there nothing to answer.
    assert sum(map(bool, answered)) > len(tried) / 2


@pytest.mark.parametrize("story", STORIES, ids=str)
def test_what_no_event_tells_is_found_out(
    story: Story,
    place: Callable[[Story], Place],
    rng: random.Random,
    record_property: Record,
) -> None:
    where = place(story)
    model = undisturbed(where)
    everything = [range(first, first + 2) for first in range(1, model.told + 1)]
    tried = share(rng, everything)
    record_property("tried", f"{len(tried)} of {len(everything)} pairs of lost events: {story}")

    async def play(site: Site, name: str, lost: range) -> None:
        trial = Trial(site, story, Cut(), name, model.seed)
        trial.swallowed = lost
        assert await lived(trial, f"events {lost} lost") == model.ending, f"{story}; {lost}"

    play_all(where, tried, play)
