"""The seed of a test run, from which every random choice in it is made, and shares of its cases."""

import os
import random
import time
from collections.abc import Sequence
from typing import TypeVar

SEED_VARIABLE = "ICDC_TEST_SEED"
SHARE_VARIABLE = "ICDC_SHARE"

Case = TypeVar("Case")

_FRESH_SEED = time.time_ns() % 1_000_000


def choose_seed(purpose: str) -> tuple[int, random.Random]:
    """Return the seed of this test run (ICDC_TEST_SEED repeats one), and choices made from it."""
    seed = int(os.environ.get(SEED_VARIABLE) or _FRESH_SEED)
    return seed, random.Random(f"{seed} {purpose}")


def choose_cases(purpose: str, cases: Sequence[Case]) -> list[Case]:
    """Return the share ICDC_SHARE of cases that are alike, one at least, in their order.

    All of them without the variable. ICDC_TEST_SEED chooses, or 0, so that each process of one test
    run chooses the same: `choose_cases("steps", range(5))` has 2 of the 5 with ICDC_SHARE=0.4.
    """
    share = float(os.environ.get(SHARE_VARIABLE) or 1)
    assert 0 < share <= 1, f"{SHARE_VARIABLE}={share}: allowed are numbers above 0, up to 1"
    choices = random.Random(f"{os.environ.get(SEED_VARIABLE) or 0} {purpose}")
    count = max(1, round(len(cases) * share))
    return [cases[at] for at in sorted(choices.sample(range(len(cases)), count))]
