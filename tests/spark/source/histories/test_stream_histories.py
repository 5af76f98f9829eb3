"""Random histories of tables that streams upsert into, and of tables whose keys come repeatedly.

As in `test_long_histories`; of a key with several rows the batch gives one of them.
"""

import itertools
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from icdc_spark.iceberg.changes import key_deletes
from icdc_testing.lake.lake import Lake
from icdc_testing.tables.histories.checking import check_model, check_together, plan_pair
from icdc_testing.tables.histories.columns import PLAIN
from icdc_testing.tables.histories.history import TableHistory
from icdc_testing.tables.histories.playing import STREAM, UPSERTS, play
from icdc_testing.tables.histories.shares import KINDS, REPEATED, ROUNDS, STREAMS, TIMES

from .duplicate_keys import Chosen, check_duplicate_keys

pytestmark = pytest.mark.spark

STREAMED = tuple(kind for kind in KINDS if kind.merges_on_read and kind.version >= 2)
SYNCS = 2
"""Syncs that are checked per history of repeated keys."""


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
        history = TableHistory(
            lake.session, lake.choose_name(), own.choice(STREAMED), PLAIN, own, position
        )
        play(history, operations=own.randint(10, 20), statements=0, chances=STREAM)
        play(history, operations=2, statements=0, chances=UPSERTS)
        check_model(history, [history.head])
        states = list(history.states)
        first = own.randrange(len(states) - 2)
        ends = [(first, min(len(states) - 1, first + own.randint(1, 4))), (-3, -1)]
        pairs += [plan_pair(history, states[since], states[until]) for since, until in ends]
    checked = check_together(pairs)
    for history in {checked_pair.history for checked_pair in pairs}:
        shutil.rmtree(Path(str(history.java.location()).removeprefix("file:")))
    by_value = sum(1 for checked_pair in pairs if checked_pair.plan.value_deletes)
    by_key = sum(1 for checked_pair in pairs if checked_pair.plan.deleted_keys.files)
    assert by_key if large else by_value, "no equality delete was met"
    record_property(
        "tried",
        f"{STREAMS * TIMES} histories of streams: {len(pairs)} pairs of snapshots, {checked} "
        f"batches, of {by_value} pairs deletes looked up by value, of {by_key} deletes that named "
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
        history = TableHistory(lake.session, lake.choose_name(), repeating, PLAIN, own, position)
        wanted = own.randint(10, 40)
        play(history, operations=wanted, statements=0)
        operations += wanted
        states = list(history.states)
        ends = sorted(own.sample(states, k=min(SYNCS, len(states))), key=states.index)
        check_model(history, ends)
        chosen: Chosen = {}
        for since, until in zip([None, *ends], ends, strict=False):
            written += check_duplicate_keys(history, since, until, chosen)
        shutil.rmtree(Path(str(history.java.location()).removeprefix("file:")))
    assert written, "no key was repeated"
    record_property(
        "tried",
        f"{REPEATED * TIMES} histories with repeated keys of {operations} operations: "
        f"{written} times a key of several rows was written",
    )
