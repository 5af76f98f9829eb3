"""The seed of a test run, from which every random choice in it is made."""

import os
import random
import time

SEED_VARIABLE = "ICDC_TEST_SEED"

_FRESH_SEED = time.time_ns() % 1_000_000


def choose_seed(purpose: str) -> tuple[int, random.Random]:
    """Return the seed of this test run (ICDC_TEST_SEED repeats one), and choices made from it."""
    seed = int(os.environ.get(SEED_VARIABLE) or _FRESH_SEED)
    return seed, random.Random(f"{seed} {purpose}")
