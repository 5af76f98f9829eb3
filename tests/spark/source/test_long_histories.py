"""Random histories: after any commits, the batch between two snapshots makes one the other.

The oracle is independent of the diff: a model in Python of what every operation does, which a read
by Iceberg's own reader confirms. `make soak` plays thousands.
"""

import itertools
import os
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from histories.checking import Pair, check_alone, check_model, check_together, pair
from histories.columns import EVERY, PLAIN, TEXTS
from histories.history import History, Kind
from histories.playing import STREAM, UPSERTS, play
from histories.twins import Chosen, check_twins
from icdc_spark.iceberg import key_deletes
from support_lake import COPY_ON_WRITE, MERGE_ON_READ, Lake

pytestmark = pytest.mark.spark

TOGETHER = {"plain": (PLAIN, 10), "all-types": (EVERY, 5), "not-for-spark": (TEXTS, 5)}
"""How many histories are evaluated together at least, by the columns that they have."""
STREAMS, REPEATED = 8, 5
"""Likewise of streams, which come in two kinds, and of repeated keys."""
_ROUND = sum(count for _, count in TOGETHER.values()) + 2 * STREAMS + REPEATED
HISTORIES = int(os.environ.get("ICDC_HISTORIES") or 500)
"""How many are played at least; ICDC_HISTORIES says another number."""
TIMES = min(5, max(1, HISTORIES // _ROUND))
"""How many times as many are evaluated together: that costs little more than evaluating few."""
ROUNDS = range(-(-HISTORIES // (_ROUND * TIMES)))
SYNCS = 2
"""How many syncs of a history are looked at, beside one between any two snapshots."""
STATEMENTS = 0.01
"""The share of statements on Spark among the operations."""

KINDS = (
    Kind(mode=COPY_ON_WRITE, version=1),
    Kind(mode=MERGE_ON_READ, version=1, upgrades=True),
    Kind(mode=COPY_ON_WRITE, version=2),
    Kind(mode=MERGE_ON_READ, version=2, upgrades=True),
    Kind(mode=MERGE_ON_READ, version=3),
)
STREAMED = tuple(each for each in KINDS if each.merges_on_read and each.version >= 2)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.parametrize("columns", TOGETHER)
def test_any_history_leads_from_one_snapshot_to_the_other(
    lake: Lake,
    rng: random.Random,
    record_property: Callable[[str, object], None],
    columns: str,
    number: int,
) -> None:
    types, count = TOGETHER[columns][0], TOGETHER[columns][1] * TIMES
    histories, operations = [], 0
    for position, kind in zip(range(count), itertools.cycle(KINDS), strict=False):
        own = random.Random(rng.getrandbits(64))
        history = History(lake.session, lake.new_name(), kind, types, own, position)
        wanted = own.randint(10, 40)
        play(history, operations=wanted, statements=STATEMENTS)
        operations += wanted
        histories.append(history)
    starts = rng.sample(range(1, 30), k=10)
    pairs = [each for history in histories for each in some_pairs(history, starts)]
    for history in histories:
        mine = [each for each in pairs if each.history is history]
        ends = {end for each in mine for end in (each.since, each.until) if end is not None}
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


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.parametrize("large", [False, True])
def test_any_history_of_a_stream_leads_from_one_snapshot_to_the_other(
    lake: Lake,
    rng: random.Random,
    record_property: Callable[[str, object], None],
    monkeypatch: pytest.MonkeyPatch,
    large: bool,
    number: int,
) -> None:
    if large:  # as if the tables were: deletes that name ids are then believed
        monkeypatch.setattr(key_deletes, "LOOK_UP_ROWS", 0)
    pairs = []
    for position in range(STREAMS * TIMES):
        own = random.Random(rng.getrandbits(64))
        history = History(lake.session, lake.new_name(), own.choice(STREAMED), PLAIN, own, position)
        play(history, operations=own.randint(10, 20), statements=0, chances=STREAM)
        play(history, operations=2, statements=0, chances=UPSERTS)
        check_model(history, [history.head])
        known = list(history.states)
        first = own.randrange(len(known) - 2)
        ends = [(first, min(len(known) - 1, first + own.randint(1, 4))), (-3, -1)]
        pairs += [pair(history, known[since], known[until]) for since, until in ends]
    checked = check_together(pairs)
    for history in {each.history for each in pairs}:
        shutil.rmtree(Path(str(history.java.location()).removeprefix("file:")))
    by_value = sum(1 for each in pairs if each.plan.by_value)
    told = sum(1 for each in pairs if each.plan.keys_gone.files)
    assert told if large else by_value, "no equality delete was met"
    record_property(
        "tried",
        f"{STREAMS * TIMES} histories of streams: {len(pairs)} pairs of snapshots, {checked} "
        f"batches, of {by_value} pairs deletes looked up by value, of {told} deletes that told "
        "the keys",
    )


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", ROUNDS)
def test_any_history_of_repeated_keys_gives_each_key_one_of_its_rows(
    lake: Lake, rng: random.Random, record_property: Callable[[str, object], None], number: int
) -> None:
    operations = written = 0
    for position, kind in zip(range(REPEATED * TIMES), itertools.cycle(KINDS), strict=False):
        own = random.Random(rng.getrandbits(64))
        repeating = replace(kind, repeats_keys=True)
        history = History(lake.session, lake.new_name(), repeating, PLAIN, own, position)
        wanted = own.randint(10, 40)
        play(history, operations=wanted, statements=0)
        operations += wanted
        known = list(history.states)
        ends = sorted(own.sample(known, k=min(SYNCS, len(known))), key=known.index)
        check_model(history, ends)
        chosen: Chosen = {}
        for since, until in zip([None, *ends], ends, strict=False):
            written += check_twins(history, since, until, chosen)
        shutil.rmtree(Path(str(history.java.location()).removeprefix("file:")))
    assert written, "no key was repeated"
    record_property(
        "tried",
        f"{REPEATED * TIMES} histories with repeated keys of {operations} operations: "
        f"{written} times a key of several rows was written",
    )


def some_pairs(history: History, starts: Sequence[int]) -> list[Pair]:
    """A few syncs one after another up to the head, and one from anywhere to anywhere.

    Syncs start at these sequence numbers where they can: what hangs on one is then evaluated
    together too.
    """
    known = [each for each in history.states if each != history.head]
    liked = [each for each in known if history.sequence_number(each) in starts] or known
    chosen = set(history.rng.sample(liked, k=min(SYNCS, len(liked))))
    syncs = [each for each in known if each in chosen] + [history.head]
    anywhere = history.rng.choice([None, *liked]), history.rng.choice([*known, history.head])
    return [pair(history, since, until) for since, until in [*itertools.pairwise(syncs), anywhere]]
