"""What an export leaves to a rollback, and what ends one."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from icdc_api.errors import Bug, Gap, IcdcError, TargetUnavailable, Unauthorized
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.opensearch.client.connection import Client
from icdc_spark.opensearch.stores import identity, indices
from icdc_spark.opensearch.stores.identity import Identity
from icdc_spark.opensearch.stores.indices import Ownership, with_ownership
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol.state_document import StateDocument
from icdc_spark.protocol.steps import Step, StepKind
from icdc_spark.replication import batches, export, export_swap
from icdc_spark.replication.checks import rollback_check
from icdc_spark.replication.checks.index_check import IndexCheck, compare_with_index
from icdc_spark.replication.checks.spec_check import PresentDocuments
from icdc_spark.replication.checks.table_observation import TableObservation, TableObserver
from icdc_spark.replication.context import TableContext
from icdc_testing.simulation.model.target import STATE, ModelTarget
from icdc_testing.target.modelled import DOCUMENTS, OWNER, TABLE, list_served
from icdc_testing.target.replaced_indices import (
    FIRST,
    SECOND,
    THIRD,
    TWO,
    begin_export,
    complete_export,
    follow,
    roll_back,
)
from icdc_testing.target.state_documents import make_empty

pytestmark = pytest.mark.unit

LATER = "2026-03-01T10:00:05Z"


def test_what_a_batch_lost_is_a_gap_and_leaves_the_way_back_open(
    context: TableContext, target: ModelTarget
) -> None:
    context.store.create(TWO.model_copy(update={"shards": None}))
    context.record_fault("the index lost a write", Gap("unknown"))
    stored = context.store.load("orders")
    assert stored is not None
    assert compare_with_index(context, stored).loss == "the index lost a write"
    observer = TableObserver(context)
    # What is refused is refused because of the earlier index.
    refusal = f"the index {FIRST} was restored, or shards of it were allocated by force"
    table = cast(Any, SimpleNamespace(properties={}))
    present = PresentDocuments(observer.session, table, None, DOCUMENTS, reads_rows=True, found={})
    assert observer._check_rollback(stored, present) == (True, refusal)
    copy = context.store.replace(stored, stored.document.distrust(now=stored.document.updated_at))
    assert observer._check_rollback(copy, present) == (False, None)


@pytest.mark.parametrize(
    ("owner", "meta", "refusal"),
    [
        (OWNER, {"documentSpec": DOCUMENTS.stored}, None),
        (OWNER, {"documentSpec": DOCUMENTS.stored | {"routing": "id"}}, "asks for other documents"),
        (OWNER, {}, "no longer says in its mapping's _meta whose it is"),
        (
            replace(OWNER, pipeline="default/other"),
            {"documentSpec": DOCUMENTS.stored},
            "no longer says in its mapping's _meta whose it is",
        ),
    ],
)
def test_an_earlier_index_is_ours_and_holds_what_the_spec_asks_for(
    context: TableContext,
    target: ModelTarget,
    owner: Ownership,
    meta: dict[str, Any],
    refusal: str | None,
) -> None:
    target.indices[FIRST].mapping = with_ownership({"_meta": meta}, owner)
    now = identity.identify(context.client, FIRST)
    assert now is not None
    (left,) = TWO.retained
    known = {"histories": now.shards.histories, "operations": now.shards.operations}
    document = TWO.model_copy(update={"retained": [left.model_copy(update=known)]})
    found = rollback_check.find_refusal(
        context, document, lambda before, _: DOCUMENTS.compare_with_stored(before)
    )
    assert (found is None) if refusal is None else (refusal in (found or ""))


@pytest.mark.parametrize(("is_owed", "left"), [(True, {FIRST, SECOND}), (False, {SECOND})])
def test_an_export_deletes_nothing_while_a_rollback_is_owed(
    context: TableContext, target: ModelTarget, is_owed: bool, left: set[str]
) -> None:
    document = complete_export(begin_export(TWO, 3))
    intent = document.intent
    assert intent is not None
    document = document.model_copy(update={"intent": intent.model_copy(update={"to": None})})
    if not is_owed:
        document = document.with_resync(1, 77, now=document.updated_at)
    export_swap.serve(
        context,
        TABLE,
        cast("DocumentSpec", SimpleNamespace(hash="abc")),
        context.store.create(document),
    )
    assert {FIRST, SECOND} & target.indices.keys() == left
    assert list_served(target) == [[THIRD]] * 2


def test_an_earlier_index_of_which_a_snapshot_is_being_taken_is_deleted_after_its_end(
    context: TableContext, target: ModelTarget
) -> None:
    document = complete_export(begin_export(TWO, 3)).with_resync(1, 77, now=LATER)
    intent = document.intent
    assert intent is not None
    document = document.model_copy(update={"intent": intent.model_copy(update={"to": None})})
    target.snapshotted = {FIRST}
    hashed = cast("DocumentSpec", SimpleNamespace(hash="abc"))
    stored = export_swap.serve(context, TABLE, hashed, context.store.create(document))
    assert list_served(target) == [[THIRD]] * 2
    assert stored.document.previous_indices == [FIRST, SECOND]
    assert target.indices.keys() >= {FIRST, SECOND}
    target.snapshotted = set()
    stored = export_swap.delete_surplus(context, stored)
    assert stored.document.previous_indices == [SECOND]
    assert FIRST not in target.indices


@pytest.mark.parametrize(
    ("document", "history", "is_honoured", "retained"),
    [
        (TWO, "now", False, [FIRST, SECOND]),
        # From an icdc-state that was restored, where the index is missing: nothing of it counts.
        (TWO, "before", True, [SECOND]),
        (make_empty(), "now", True, []),
    ],
)
def test_an_export_ends_a_rollback_that_means_nothing_any_more(
    context: TableContext,
    target: ModelTarget,
    document: StateDocument,
    history: str,
    is_honoured: bool,
    retained: list[str],
) -> None:
    stored = context.store.create(document)
    now = identity.read_store_history(context.client)
    assert STATE in target.indices
    known = document.model_copy(update={"store_history": now if history == "now" else history})
    stored = context.store.replace(stored, known)
    work = export.ExportWork(
        context=context,
        session=cast("Any", None),
        table=TABLE,
        documents=DOCUMENTS,
        served=IndexCheck(loss="the index is missing"),
    )
    after = export._record_intent(work, stored, Step(kind=StepKind.EXPORT), planned=None).document
    assert (after.resync_id == 77) == is_honoured
    assert [record.index for record in after.retained] == retained


@pytest.mark.parametrize(
    "failure", [TargetUnavailable("no shard"), Unauthorized("refused"), Bug("unforeseen")]
)
def test_indices_that_attempts_made_without_an_answer_do_not_pile_up(
    context: TableContext,
    target: ModelTarget,
    monkeypatch: pytest.MonkeyPatch,
    failure: IcdcError,
) -> None:
    stored = context.store.create(TWO)
    made = [f"orders-{number:06d}" for number in (3, 4, 5)]
    for name in made[1:]:
        target.make(name, {"mappings": with_ownership({}, OWNER)})
    target.make("orders-000006", {})
    target.indices[made[1]].write("row", {}, 0.0)
    identify = identity.identify

    def identify_others(client: Client, index: str) -> Identity | None:
        # What the first one holds, no answer tells.
        if index == made[0]:
            raise failure
        return identify(client, index)

    monkeypatch.setattr(identity, "identify", identify_others)
    work = export.ExportWork(
        context=context,
        session=cast("Any", None),
        table=TABLE,
        documents=DOCUMENTS,
        served=IndexCheck(loss=None),
    )

    def make_unheard(client: Client, name: str, *_: Any, **__: Any) -> None:
        target.make(name, {"mappings": with_ownership({}, OWNER)})
        raise TargetUnavailable("no answer")

    monkeypatch.setattr(indices, "create_index", make_unheard)
    for last in ("orders-000007", "orders-000008"):
        with pytest.raises(TargetUnavailable, match="no answer"):
            export._record_intent(work, stored, Step(kind=StepKind.EXPORT), planned=None)
        # Somebody else's, the first, one with a document, and the last.
        left = {FIRST, SECOND, *made[:2], "orders-000006", last}
        assert target.indices.keys() - {STATE, "orders-dead-letters"} == left


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (TWO, StepKind.EXPORT),
        (roll_back(TWO, number=9), StepKind.CHANGELOG),
        (follow(roll_back(TWO, number=9), number=8), StepKind.CHANGELOG),
        (follow(roll_back(TWO, number=9), number=9), StepKind.EXPORT),
    ],
)
def test_no_export_takes_the_place_of_the_changes_after_a_rollback(
    context: TableContext,
    monkeypatch: pytest.MonkeyPatch,
    document: StateDocument,
    kind: StepKind,
) -> None:
    monkeypatch.setattr(batches, "find_reason_to_rebuild", lambda *_, **__: "it is cheaper")
    step = Step(kind=StepKind.CHANGELOG, from_id="77", to_id="80")
    observation = TableObservation(
        table=TABLE,
        current=None,
        documents=DOCUMENTS,
        stored=Stored(document, 0, 1, 1),
        step=step,
        meanwhile=step,
        index=IndexCheck(loss=None),
    )
    chosen = TableObserver(context).choose_cheaper(observation)
    assert chosen.step.kind is kind
    assert chosen == replace(observation, step=chosen.step)
