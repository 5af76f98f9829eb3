"""Nonces of `spec.resync`: honoured once, with the mode and the tables that they came with."""

from typing import Any

import pytest

from icdc_api.job.run_files import Reexport
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import RunKind
from icdc_api.status.triggers import ObservedTriggers
from icdc_operator.core.asked import comparisons, resyncs
from icdc_testing.operator.deciding.pipelines import make_spec

pytestmark = pytest.mark.unit

ORDERS, ITEMS = "shop.orders", "shop.items"


def build_spec(**resync: Any) -> Any:
    return make_spec(ORDERS, ITEMS, resync=resync)


class PlannedPipeline:
    """A pipeline for whose spec one run after the other is planned."""

    def __init__(self, status: PipelineStatus | None = None) -> None:
        self.status = status or PipelineStatus()
        self.epoch = 1000

    def plan(self, **resync: Any) -> tuple[Reexport | None, RunKind | None]:
        """Return the re-export that a run of that spec owes, and the comparison that it leaves."""
        self.epoch += 1
        spec = build_spec(**resync)
        triggers = resyncs.record_triggers(self.status, spec, epoch=self.epoch)
        self.status = self.status.model_copy(update={"observed_triggers": triggers})
        return resyncs.build_reexport(self.status, spec), comparisons.find_requested(
            self.status, spec
        )

    def record_answer(self) -> None:
        triggers = self.status.observed_triggers
        assert triggers is not None
        answered = triggers.model_copy(update={"verified_nonce": triggers.resync_nonce})
        self.status = self.status.model_copy(update={"observed_triggers": answered})


@pytest.mark.parametrize("mode", ["Verify", "Repair"])
def test_mode_and_tables_that_are_taken_out_after_a_comparison_ask_for_nothing(mode: str) -> None:
    pipeline = PlannedPipeline()
    pipeline.plan(nonce=3)
    assert pipeline.plan(nonce=4, mode=mode, tables=[ORDERS]) == (None, RunKind(mode))
    pipeline.record_answer()
    for tidied in ({"nonce": 4, "mode": mode}, {"nonce": 4}, {"nonce": 4, "tables": [ITEMS]}):
        assert pipeline.plan(**tidied) == (None, None)


def test_a_rollback_is_owed_like_a_reexport_and_no_comparison_follows() -> None:
    pipeline = PlannedPipeline()
    pipeline.plan(nonce=0)
    owed = Reexport(nonce=1, tables=(ORDERS,), id=1002, rollback=True)
    assert pipeline.plan(nonce=1, tables=[ORDERS], mode="Rollback") == (owed, None)
    # What asked for it may be taken out of the spec; a later request replaces it.
    assert pipeline.plan(nonce=1) == (owed, None)
    assert pipeline.plan(nonce=2, mode="Verify") == (None, RunKind.VERIFY)


def test_tables_that_are_taken_out_after_a_reexport_export_no_others() -> None:
    pipeline = PlannedPipeline()
    pipeline.plan(nonce=0)
    owed = Reexport(nonce=1, tables=(ORDERS,), id=1002)
    assert pipeline.plan(nonce=1, tables=[ORDERS]) == (owed, None)
    assert pipeline.plan(nonce=1) == (owed, None)
    assert pipeline.plan(nonce=1, mode="Verify") == (owed, None)


def test_what_is_asked_for_before_a_comparison_was_made_is_still_asked_for_as_it_was() -> None:
    pipeline = PlannedPipeline()
    pipeline.plan(nonce=0)
    pipeline.plan(nonce=1, mode="Verify", tables=[ITEMS])
    assert pipeline.plan(nonce=1) == (None, RunKind.VERIFY)
    assert comparisons.list_table_names(pipeline.status, build_spec(nonce=1)) == (ITEMS,)


def test_every_request_differs_from_every_other_one_of_the_same_nonce() -> None:
    one, other = PlannedPipeline(), PlannedPipeline()
    other.epoch = 5000
    for pipeline in (one, other):
        pipeline.plan(nonce=0)
    (first, _), (second, _) = one.plan(nonce=1), other.plan(nonce=1)
    assert first is not None
    assert second is not None
    assert first.id != second.id


def test_a_nonce_that_was_there_before_the_status_is_told_as_such() -> None:
    assert PlannedPipeline().plan(nonce=4) == (Reexport(nonce=4, id=None), None)


def test_a_nonce_that_shrank_counts_from_there_on() -> None:
    """Such as in a file that is run on a host, where no API server refuses it."""
    pipeline = PlannedPipeline()
    pipeline.plan(nonce=0)
    owed, _ = pipeline.plan(nonce=5)
    assert pipeline.plan(nonce=2) == (owed, None)
    assert pipeline.plan(nonce=3, mode="Verify") == (None, RunKind.VERIFY)
    pipeline.record_answer()
    again, _ = pipeline.plan(nonce=5)
    assert again is not None
    assert owed is not None
    assert again.id != owed.id


def test_a_comparison_is_made_for_each_request_also_of_the_same_nonce() -> None:
    pipeline = PlannedPipeline()
    pipeline.plan(nonce=5, mode="Verify")
    pipeline.record_answer()
    assert pipeline.plan(nonce=2) == (None, None)
    assert pipeline.plan(nonce=5, mode="Verify") == (None, RunKind.VERIFY)


def test_a_comparison_of_a_table_that_was_taken_out_asks_for_nothing() -> None:
    pipeline = PlannedPipeline()
    pipeline.plan(nonce=1, mode="Verify", tables=[ITEMS])
    assert (
        comparisons.find_requested(pipeline.status, make_spec(ORDERS, resync={"nonce": 1})) is None
    )


def test_a_status_of_an_earlier_version_asks_for_nothing_twice() -> None:
    triggers = ObservedTriggers(resync_nonce=4, verified_nonce=4)
    pipeline = PlannedPipeline(PipelineStatus(observed_triggers=triggers))
    assert pipeline.plan(nonce=4, mode="Verify") == (None, None)
    assert pipeline.plan(nonce=4) == (None, None)
