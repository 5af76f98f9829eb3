"""The moment of a comparison: what is under way at it, and how its scan ends."""

from types import SimpleNamespace
from typing import Any

import pytest

from icdc_api.errors import TargetUnavailable
from icdc_spark.opensearch.stores import dead_letters, indices
from icdc_spark.protocol.next_step import StepKind
from icdc_spark.protocol.state_document import IntentKind
from icdc_spark.verification import comparison, moment
from icdc_spark.verification.moment import IndexMoment

pytestmark = pytest.mark.unit

CONTEXT: Any = SimpleNamespace(
    client=None,
    ownership=None,
    request=SimpleNamespace(tables=[], continuous=True),
    table=SimpleNamespace(name="shop.orders"),
)


def stored(kind: IntentKind | None = None) -> Any:
    """Return a state document with an open intent of this kind."""
    intent = None if kind is None else SimpleNamespace(kind=kind)
    applied = SimpleNamespace(snapshot_id="77")
    marks = {"index": "things-1", "index_uuid": "u", "last_ordinal": 5}
    return SimpleNamespace(document=SimpleNamespace(applied=applied, intent=intent, **marks))


@pytest.mark.parametrize(
    ("kind", "is_under_way"),
    [(IntentKind.CHANGELOG, True), (IntentKind.REPAIR, True), (IntentKind.EXPORT, False)],
)
def test_an_open_export_explains_no_difference_of_the_index_that_is_served(
    kind: IntentKind, is_under_way: bool
) -> None:
    scan: Any = None
    compared: Any = comparison._Compared(
        observer=SimpleNamespace(context=CONTEXT),  # type: ignore[arg-type]
        observation=SimpleNamespace(step=SimpleNamespace(kind=StepKind.REPLAY)),  # type: ignore[arg-type]
        moment=IndexMoment(stored(kind), scan, 3, frozenset()),
    )
    entry = comparison._begin_entry(compared)
    assert entry.get("underWay", False) is is_under_way
    assert "a batch is under way" in (entry["message"] or "")


def test_a_comparison_has_its_answer_where_its_scan_cannot_be_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise TargetUnavailable("no answer")

    monkeypatch.setattr(moment, "open_scan", lambda *_: None)
    monkeypatch.setattr(moment, "close_scan", fail)
    monkeypatch.setattr(indices, "refresh_and_count", lambda *_: 3)
    monkeypatch.setattr(dead_letters, "list_ids", lambda *_: frozenset())
    with moment.open_moment(CONTEXT, stored, lambda _: None, slices=1) as opened:
        documents = opened.documents
    assert documents == 3
