"""Random histories: after any commits, the batch between two snapshots makes one the other.

The oracle is independent of the diff: a model in Python of what every operation does, which a read
by Iceberg's own reader confirms. `make soak` plays thousands.
"""

import itertools
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from icdc_testing.lake.lake import Lake
from icdc_testing.tables.histories.checking import (
    Pair,
    check_alone,
    check_model,
    check_together,
    plan_pair,
)
from icdc_testing.tables.histories.columns import EVERY, PLAIN, TEXTS
from icdc_testing.tables.histories.history import TableHistory
from icdc_testing.tables.histories.playing import play
from icdc_testing.tables.histories.shares import KINDS, ROUNDS, TIMES, TOGETHER

pytestmark = pytest.mark.spark

SYNCS = 2
"""Syncs that are checked per history, besides one between any two snapshots."""
STATEMENTS = 0.01
"""Share of SQL statements among the operations; the others are commits by Iceberg's API."""
TYPES = {"plain": PLAIN, "all-types": EVERY, "not-for-spark": TEXTS}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.parametrize("columns", TYPES)
def test_any_history_leads_from_one_snapshot_to_the_other(
    lake: Lake,
    rng: random.Random,
    record_property: Callable[[str, object], None],
    columns: str,
    number: int,
) -> None:
    types, count = TYPES[columns], TOGETHER[columns] * TIMES
    histories, operations = [], 0
    for position, kind in zip(range(count), itertools.cycle(KINDS), strict=False):
        own = random.Random(rng.getrandbits(64))
        history = TableHistory(lake.session, lake.choose_name(), kind, types, own, position)
        wanted = own.randint(10, 40)
        play(history, operations=wanted, statements=STATEMENTS)
        operations += wanted
        histories.append(history)
    starts = rng.sample(range(1, 30), k=10)
    pairs = [pair for history in histories for pair in choose_pairs(history, starts)]
    for history in histories:
        mine = [pair for pair in pairs if pair.history is history]
        ends = {end for pair in mine for end in (pair.since, pair.until) if end is not None}
        check_model(history, sorted(ends))
    checked = check_together(pairs)
    check_alone(rng.choice(pairs))
    for history in histories:
        shutil.rmtree(Path(str(history.java.location()).removeprefix("file:")))
    record_property(
        "tried",
        f"{count} histories with {columns} of {operations} operations: {len(pairs)} pairs of "
        f"snapshots, {checked} batches",
    )


def choose_pairs(history: TableHistory, starts: Sequence[int]) -> list[Pair]:
    """Return a few syncs one after another up to the head, and one from anywhere to anywhere.

    Syncs start at these sequence numbers where they can: what hangs on one is then evaluated
    together too.
    """
    earlier = [state for state in history.states if state != history.head]
    liked = [state for state in earlier if history.read_sequence_number(state) in starts] or earlier
    chosen = set(history.rng.sample(liked, k=min(SYNCS, len(liked))))
    syncs = [state for state in earlier if state in chosen] + [history.head]
    anywhere = history.rng.choice([None, *liked]), history.rng.choice([*earlier, history.head])
    return [
        plan_pair(history, since, until) for since, until in [*itertools.pairwise(syncs), anywhere]
    ]
