"""Each story with something going wrong, at every single call to a real API server and every event.

Faults: an operator dies, or is disturbed, at a call. What it sees may be old, or missing, which are
the questions of Sieve. Stale: for a while all that it reads is as before a call, as from a second
API server that lags behind; it lives on, or dies and starts anew with such a view. Unobserved: two
events of watches in a row never come, so that what was there between them (A, B, A) is never seen.
Together: a second operator works beside the first, without leader election; what keeps them from
doing harm is what keeps one that was killed from it: versions of statuses, names and epochs that
the durable record fixes. How long their calls take is by chance, so that they meet in all ways.
A share of all, another by each seed, unless ICDC_SOAK is set.
"""

import asyncio
import os
import random
from collections.abc import Callable, Iterator

import pytest

from icdc_testing.operator.kills.cuts import DISTURBANCES, CallFault, Cut, Journal
from icdc_testing.operator.kills.playing import (
    SOAK_VARIABLE,
    StoryScope,
    Undisturbed,
    choose_share,
    play_all,
    play_cuts,
    run_to_end,
)
from icdc_testing.operator.kills.trial import Trial, TrialSite

pytestmark = pytest.mark.api

Record = Callable[[str, object], None]

TIMES, SOAK_TIMES = 2, 40
QUICK_SECONDS, SLOW_SECONDS = 0.001, 1.5
"""Between these each call takes of two operators: from far below to above a step of the world."""


def list_faults(calls: list[str]) -> Iterator[Cut]:
    """Yield every call in both ways to die, and each of the others at every call in turn.

    A read leaves nothing on the server: to die with its answer is to die before the next call.
    """
    for at, call in enumerate(calls, 1):
        yield Cut(at, CallFault.KILLED_BEFORE)
        if not call.startswith("GET"):
            yield Cut(at, CallFault.KILLED_AFTER)
        yield Cut(at, DISTURBANCES[at % len(DISTURBANCES)])


def list_stale_cuts(calls: list[str]) -> Iterator[Cut]:
    """Yield an old view from each call on; after a write also of an operator that starts anew."""
    for at, call in enumerate(calls, 1):
        yield Cut(at, CallFault.STALE)
        if not call.startswith("GET"):
            yield Cut(at, CallFault.KILLED_STALE)


class TogetherTrial(Trial):
    """A story with two operators that begin together and live to its end."""

    calls_of: tuple[Journal, Journal]
    rng: random.Random

    async def _run_operators(self) -> None:
        self.calls_of = (Journal(Cut()), Journal(Cut()))
        await asyncio.gather(
            *(self.run_operators(call, self._draw_seconds) for call in self.calls_of)
        )

    def _draw_seconds(self) -> float:
        # As many quick ones as slow ones, by their logarithm.
        return float(QUICK_SECONDS * (SLOW_SECONDS / QUICK_SECONDS) ** self.rng.random())


def test_an_operator_may_die_between_any_two_calls(
    scope: StoryScope, model: Undisturbed, rng: random.Random, record_property: Record
) -> None:
    everything = list(list_faults(model.calls))
    tried = choose_share(rng, everything)
    of = f"{len(tried)} of {len(everything)} faults at {len(model.calls)} calls"
    record_property("tried", f"{of}: {scope.story}")
    play_cuts(scope, model, tried)


def test_a_view_of_before_does_no_harm(
    scope: StoryScope, model: Undisturbed, rng: random.Random, record_property: Record
) -> None:
    everything = list(list_stale_cuts(model.calls))
    tried = choose_share(rng, everything)
    record_property("tried", f"{len(tried)} of {len(everything)} stale views: {scope.story}")
    views = [cut.view for cut in play_cuts(scope, model, tried)]
    answered = [view.answered for view in views if view is not None]
    assert len(answered) == len(tried)
    # Only where the operator has nothing to look at for so long is there nothing to answer.
    assert sum(map(bool, answered)) > len(tried) / 2


def test_what_no_event_tells_is_found_out(
    scope: StoryScope, model: Undisturbed, rng: random.Random, record_property: Record
) -> None:
    everything = [range(first, first + 2) for first in range(1, model.watch_events + 1)]
    tried = choose_share(rng, everything)
    of = f"{len(tried)} of {len(everything)} pairs of lost events"
    record_property("tried", f"{of}: {scope.story}")

    async def play(site: TrialSite, name: str, lost: range) -> None:
        trial = Trial(site, scope.story, Cut(), name, model.seed)
        trial.swallowed = lost
        assert await run_to_end(trial, f"events {lost} lost") == model.ending, (
            f"{scope.story}; {lost}"
        )

    play_all(scope, tried, play)


def test_two_operators_at_once_make_the_same_of_it(
    scope: StoryScope, model: Undisturbed, rng: random.Random, record_property: Record
) -> None:
    story = scope.story
    seeds = [rng.random() for _ in range(SOAK_TIMES if os.environ.get(SOAK_VARIABLE) else TIMES)]
    record_property("tried", f"{len(seeds)} times two operators at once: {story}")

    async def play(site: TrialSite, name: str, seed: float) -> None:
        trial = TogetherTrial(site, story, Cut(), name, model.seed)
        trial.rng = random.Random(seed)
        outcome = await run_to_end(trial, f"two operators, {seed}")
        assert outcome == model.ending, f"{story}; two operators, {seed}"
        assert all(journal.calls for journal in trial.calls_of), "both work"

    play_all(scope, seeds, play)
