"""Acto's three questions to `decide`, about each field of the CRD in each phase of a pipeline.

Changed and changed back, does it come to what it would have come to without the change? Has every
change an effect that somebody can see? Is a spec that is no good refused by the name of its field?
Each field by itself and in pairs; phases and pairs by the seed, all of them with ICDC_SOAK.
"""

import itertools
import os
import random
import re

import pytest

from icdc_api.status.conditions import ConditionType
from icdc_testing.operator.deciding.edited_world import PHASES
from icdc_testing.operator.deciding.spec_fields import (
    SpecField,
    change_fields,
    list_fields,
    make_base,
    put,
)
from icdc_testing.waiting.seeds import choose_seed

pytestmark = [pytest.mark.unit, pytest.mark.timeout(3600)]

SOAK = bool(os.environ.get("ICDC_SOAK"))
PHASES_EACH, PAIRS = 1, 40
"""Phases in which a field is changed, and pairs of fields that are changed."""
POLLS = (0, 1, 3)
"""Looks of the operator at the changed spec, before it is changed back."""
CHANGEABLE = [field for field in list_fields() if not field.only_grows]


def choose_phases(chance: random.Random) -> list[str]:
    return list(PHASES) if SOAK else chance.sample([*PHASES], PHASES_EACH)


def choose_pairs(chance: random.Random) -> list[tuple[SpecField, SpecField]]:
    everything = list(itertools.combinations(CHANGEABLE, 2))
    return everything if SOAK else chance.sample(everything, PAIRS)


def check_that_nothing_is_left(phase: str, *changed: SpecField, polls: int) -> None:
    """Change, look some times or never, change back: it is as if nothing had been changed."""
    if phase == "suspended" and any(field.path == "suspend" for field in changed):
        return  # what it does meanwhile is meant to stay
    world, untouched = PHASES[phase](make_base(*changed)), PHASES[phase](make_base(*changed))
    before = world.document
    world.declare(change_fields(before, *changed))
    for _ in range(polls):
        world.step()
    world.declare(before)
    world.settle()
    if untouched.status.holds(ConditionType.STALLED):
        # What was given up is tried again after any edit.
        untouched.declare(before)
    untouched.settle()
    assert world.describe_ending() == untouched.describe_ending(), (
        f"{phase}, {polls} looks, {[*map(str, changed)]}"
    )


def check_that_it_is_heeded(phase: str, *changed: SpecField) -> None:
    """Require that a run is made of the changed spec, or the status says something of it."""
    world = PHASES[phase](make_base(*changed))
    world.declare(change_fields(world.document, *changed))
    world.settle()
    assert world.heeds(), f"{phase}: {[*map(str, changed)]}: {world.describe_ending()}"


@pytest.mark.parametrize("field", CHANGEABLE, ids=str)
def test_a_field_that_is_changed_back_leaves_nothing_behind(field: SpecField) -> None:
    _, chance = choose_seed(f"there and back {field}")
    for phase in choose_phases(chance):
        for polls in POLLS if SOAK else (chance.choice(POLLS),):
            check_that_nothing_is_left(phase, field, polls=polls)


@pytest.mark.parametrize("field", list_fields(), ids=str)
def test_no_change_of_a_field_is_ignored(field: SpecField) -> None:
    _, chance = choose_seed(f"heeded {field}")
    for phase in choose_phases(chance):
        check_that_it_is_heeded(phase, field)


def test_two_fields_that_are_changed_back_leave_nothing_behind() -> None:
    _, chance = choose_seed("there and back in pairs")
    for pair in choose_pairs(chance):
        check_that_nothing_is_left(chance.choice([*PHASES]), *pair, polls=chance.choice(POLLS))


def test_no_change_of_two_fields_is_ignored_and_what_excludes_another_is_refused() -> None:
    _, chance = choose_seed("heeded in pairs")
    for pair in choose_pairs(chance):
        check_that_it_is_heeded(chance.choice([*PHASES]), *pair)


@pytest.mark.parametrize("phase", PHASES)
def test_a_spec_that_is_refused_says_why_and_leaves_nothing_behind(phase: str) -> None:
    _, chance = choose_seed(f"refused {phase}")
    (mode,) = (field for field in list_fields() if field.path == "mode")
    for field in chance.sample(list_fields(), len(list_fields()) if SOAK else 4):
        wrong = next(field.list_wrong())
        world, untouched = PHASES[phase](make_base(field)), PHASES[phase](make_base(field))
        before = world.document
        spec = change_fields(before, mode)
        put(spec, field.path, wrong)
        world.declare(spec)
        for _ in range(chance.choice(POLLS[1:])):
            world.step()
        valid = world.status.find_condition(ConditionType.SPEC_VALID)
        assert valid is not None
        assert (valid.status, valid.reason) == ("False", "InvalidSpec"), phase
        assert re.search(field.error_pattern, valid.message), valid.message
        world.declare(before)
        world.settle()
        if untouched.status.holds(ConditionType.STALLED):
            untouched.declare(before)
        untouched.settle()
        assert world.describe_ending() == untouched.describe_ending(), f"{phase}: {field}"
