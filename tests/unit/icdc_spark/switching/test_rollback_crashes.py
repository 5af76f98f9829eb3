"""A rollback whose run dies at any of its requests, and one that somebody else is in the way of."""

from dataclasses import replace

import pytest

from icdc_api.errors import AliasTaken
from icdc_spark.opensearch.stores import aliases
from icdc_spark.opensearch.stores.indices import with_ownership
from icdc_spark.protocol.state_document import StateDocument
from icdc_spark.replication.checks import alias_check
from icdc_spark.replication.context import TableContext
from icdc_spark.replication.table_run import TableRun
from icdc_testing.simulation.model.target import ModelTarget
from icdc_testing.target.modelled import (
    OWNER,
    TABLE,
    RunKilledError,
    TargetConnection,
    fill,
    list_dead_letters,
    list_served,
    switch,
)
from icdc_testing.target.replaced_indices import (
    FIRST,
    SECOND,
    THIRD,
    TWO,
    begin_export,
    follow,
    roll_back,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("document", [TWO, begin_export(TWO, 3)], ids=["idle", "amid an export"])
@pytest.mark.parametrize("is_answered", [False, True])
def test_a_rollback_that_dies_at_any_request_is_finished_by_the_next_run(
    context: TableContext,
    target: ModelTarget,
    monkeypatch: pytest.MonkeyPatch,
    document: StateDocument,
    is_answered: bool,
) -> None:
    monkeypatch.setattr(TargetConnection, "is_answered", is_answered)
    # As if the served index could not be used again, which readers would else keep.
    document = document.model_copy(update={"retained": TWO.retained})
    deaths = 0
    while True:
        fill(target)
        stored = context.store.create(document)
        monkeypatch.setattr(TargetConnection, "left", deaths)
        try:
            switch(context, stored)
        except RunKilledError:
            deaths += 1
        else:
            break
        finally:
            monkeypatch.setattr(TargetConnection, "left", None)
        left = context.store.load("orders")
        assert left is not None
        # Readers never have an index that the document does not name.
        assert list_served(target) == [[SECOND]] * 2 or left.document.index == FIRST
        assert list_dead_letters(target) == ["row 1", "row 2"] or left.document.index == FIRST
        claimed = TableRun(context)._claim()
        assert claimed is not None
        if context.build_policies().owe_rollback(claimed.document):
            switch(context, claimed)
        assert list_served(target) == [[FIRST]] * 2
        assert list_dead_letters(target) == ["row 2"]
        after = context.store.load("orders")
        assert after is not None
        assert (after.document.resync_id, after.document.previous_indices) == (77, [SECOND])
        assert after.document.rolled_back_number == TABLE.last_sequence_number
        assert {FIRST, SECOND} <= target.indices.keys()
    # The document, the alias and the dead letters, and what was given up.
    assert deaths == (3 if document.intent is None else 4)
    assert (THIRD in target.indices) == (document.intent is None)


@pytest.mark.parametrize(
    ("document", "served", "dead_letters"),
    [
        # As soon as a batch has begun, dead letters are of this index, and nobody looks again.
        (follow(roll_back(TWO), number=9), SECOND, ["row 1", "row 2"]),
        (TWO, SECOND, ["row 1", "row 2"]),
        (roll_back(TWO), FIRST, ["row 2"]),
        # Another index of that name is a gap like any other.
        (roll_back(TWO).model_copy(update={"index_uuid": "another"}), SECOND, ["row 1", "row 2"]),
    ],
)
def test_only_a_rollback_that_may_be_unfinished_is_finished(
    context: TableContext,
    target: ModelTarget,
    document: StateDocument,
    served: str,
    dead_letters: list[str],
) -> None:
    context.store.create(document)
    TableRun(context)._claim()
    assert (list_served(target), list_dead_letters(target)) == ([[served]] * 2, dead_letters)


def test_an_alias_of_somebody_else_is_noticed_before_anything_is_stored(
    context: TableContext, target: ModelTarget
) -> None:
    stored = context.store.create(TWO)
    target.indices[SECOND].mapping = with_ownership({}, replace(OWNER, pipeline="default/other"))
    with pytest.raises(AliasTaken):
        switch(context, stored)
    assert context.store.load("orders") == stored


def test_a_poll_moves_other_aliases_of_a_recorded_index_along(
    context: TableContext, target: ModelTarget
) -> None:
    stored = context.store.create(roll_back(TWO))
    alias_check.keep_alias(context, stored.document)
    assert list_served(target) == [[FIRST]] * 2
    # Not those of an index that the document does not name: whoever gave them knows why.
    fill(target)
    target.indices[THIRD].aliases, target.indices[SECOND].aliases = (
        target.indices[SECOND].aliases,
        {},
    )
    problem = aliases.restore(context.client, OWNER, FIRST, require_owner=lambda: None)
    assert problem is not None
    assert list_served(target) == [[FIRST], [THIRD]]
