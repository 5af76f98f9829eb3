"""An operator dies, or is disturbed, at every single call to a real API server of each story."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

import support_leaping_clock
from support_cuts import DISTURBANCES, KILLS, Cut, Fault, client
from support_kill_endings import Ending, check
from support_kill_seeds import Seed
from support_kill_stories import STORIES, Story
from support_kill_trial import Site, Trial
from support_kube import KubeApi
from support_kube_pipelines import Pipelines
from support_leaping_clock import Clock

pytestmark = pytest.mark.api

SIDE_BY_SIDE = 16
"""Loops, each in a thread and with a clock of its own: what they wait for is the API server."""


@dataclass(frozen=True)
class Place:
    """Where a story plays, and as whom its people come to the API server."""

    story: Story
    namespace: str
    admin: Path
    operator: Path


@dataclass(frozen=True)
class Undisturbed:
    """The story as it should go: what those that are disturbed are held against."""

    seed: Seed | None
    calls: list[str]
    ending: Ending


def cuts(calls: list[str]) -> Iterator[Cut]:
    """Every call in both ways to die, and each of the others at every call in turn.

    A read leaves nothing on the server: to die with its answer is to die before the next call.
    """
    for at, call in enumerate(calls, 1):
        yield Cut(at, Fault.KILLED_BEFORE)
        if not call.startswith("GET"):
            yield Cut(at, Fault.KILLED_AFTER)
        yield Cut(at, DISTURBANCES[at % len(DISTURBANCES)])


async def tried(
    site: Site, story: Story, cut: Cut, name: str, seed: Seed | None = None
) -> tuple[Trial, Ending]:
    trial = Trial(site, story, cut, name, seed)
    try:
        await trial.run()
        return trial, await check(trial)
    except (AssertionError, ExceptionGroup, TimeoutError) as error:
        raise AssertionError(f"{story}; {cut}: {error}") from error


async def undisturbed(clock: Clock, place: Place) -> Undisturbed:
    """The whole story, and what is cut of it."""
    async with client(place.admin) as admin, client(place.operator) as operator:
        site = Site(clock, place.namespace, admin, operator)
        whole, wanted = await tried(site, place.story, Cut(), "killnone")
        planted, same = await tried(site, place.story, Cut(), "killseed", whole.seed)
    assert same == wanted, f"{place.story}: planted"
    return Undisturbed(whole.seed, planted.calls[: planted.positions], wanted)


async def disturbed(
    clock: Clock, place: Place, model: Undisturbed, left: list[tuple[int, Cut]]
) -> None:
    """Takes one cut after the other, while others take theirs."""
    async with client(place.admin) as admin, client(place.operator) as operator:
        site = Site(clock, place.namespace, admin, operator)
        while left:
            number, cut = left.pop()
            trial, found = await tried(site, place.story, cut, f"kill{number}y", model.seed)
            assert trial.calls[: cut.at] == model.calls[: cut.at], f"{place.story}; {cut}"
            assert trial.restarts == (cut.fault in KILLS), f"{place.story}; {cut}"
            assert found == model.ending, f"{place.story}; {cut}"


@pytest.mark.parametrize("story", STORIES, ids=str)
def test_an_operator_may_die_between_any_two_calls(
    story: Story,
    kube: KubeApi,
    account: Path,
    pipelines: Pipelines,
    record_property: Callable[[str, object], None],
) -> None:
    place = Place(story, pipelines.namespace, kube.kubeconfig, account)
    model = support_leaping_clock.run(lambda clock: undisturbed(clock, place))
    left = list(enumerate(cuts(model.calls)))
    record_property("tried", f"{len(left)} faults at {len(model.calls)} calls: {story}")

    def work() -> None:
        try:
            support_leaping_clock.run(lambda clock: disturbed(clock, place, model, left))
        finally:
            left.clear()  # without this, the others would go on after a failure

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        for each in [pool.submit(work) for _ in range(SIDE_BY_SIDE)]:
            each.result()
