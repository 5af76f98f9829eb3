"""The moment of a comparison: what is under way at it, and how its scan ends."""

from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from icdc_api.errors import TargetInvalid
from icdc_spark.opensearch.stores import dead_letters, indices
from icdc_spark.protocol.state_document import IntentKind
from icdc_spark.verification import entries, moment
from icdc_spark.verification.moment import IndexMoment

pytestmark = pytest.mark.unit

CONTEXT: Any = SimpleNamespace(
    client=None,
    ownership=None,
    opensearch=SimpleNamespace(ingest_pipeline=None),
    request=SimpleNamespace(tables=[], continuous=True),
    table=SimpleNamespace(name="shop.orders"),
)


def make_stored(kind: IntentKind | None = None, uuid: str = "u") -> Any:
    """Return a state document with an open intent of this kind."""
    intent = None if kind is None else SimpleNamespace(kind=kind)
    applied = SimpleNamespace(snapshot_id="77")
    marks = {"index": "things-1", "index_uuid": uuid, "last_ordinal": 5}
    return SimpleNamespace(document=SimpleNamespace(applied=applied, intent=intent, **marks))


@pytest.mark.parametrize(
    ("kind", "is_under_way"),
    [(IntentKind.CHANGELOG, True), (IntentKind.REPAIR, True), (IntentKind.EXPORT, False)],
)
def test_an_open_export_explains_no_difference_of_the_index_that_is_served(
    kind: IntentKind, is_under_way: bool
) -> None:
    scan: Any = None
    opened = IndexMoment(make_stored(kind), scan, 3, frozenset())
    entry = entries.begin_entry(CONTEXT, opened, None)
    assert entry.get("underWay", False) is is_under_way
    assert "a batch is under way" in (entry["message"] or "")


def test_a_comparison_that_is_asked_to_stop_does_not_wait_for_the_end_of_a_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loads: list[int] = []

    def load() -> Any:
        loads.append(1)
        return make_stored(IntentKind.CHANGELOG)

    _play_opensearch(monkeypatch)
    request, stop = SimpleNamespace(tables=None, continuous=False), Event()
    stop.set()
    context: Any = SimpleNamespace(**vars(CONTEXT) | {"request": request, "stop": stop})
    with moment.open_moment(context, load, lambda _: None) as opened:
        assert opened.batch is not None
    assert len(loads) == 2


OLD, NEW = make_stored(IntentKind.EXPORT, "old"), make_stored(uuid="new")


@pytest.mark.parametrize(
    ("states", "fails_at", "opened_uuid"),
    [
        # The alias has moved before the first check, or after it: the state says so soon.
        ((OLD, OLD, NEW), 0, "new"),
        ((OLD, OLD, NEW), 1, "new"),
        # The index is not there, and the state names another one by now.
        ((make_stored(uuid="old"), NEW), 0, "new"),
        # Nothing replaces the index: the failure is of this very index.
        ((make_stored(uuid="old"),), 0, None),
        ((OLD,), 0, None),
    ],
)
def test_an_index_that_an_export_replaces_meanwhile_is_opened_as_the_new_one(
    monkeypatch: pytest.MonkeyPatch, states: tuple[Any, ...], fails_at: int, opened_uuid: str | None
) -> None:
    left, checks = list(states), []

    def load() -> Any:
        return left.pop(0) if len(left) > 1 else left[0]

    def check(state: Any) -> None:
        checks.append(state)
        if state.index_uuid == "old" and len(checks) > fails_at:
            raise TargetInvalid("readers do not see it")

    monkeypatch.setattr(moment, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(moment, "_POLL_SECONDS", 0.001)
    _play_opensearch(monkeypatch)
    request = SimpleNamespace(tables=None, continuous=False)
    context: Any = SimpleNamespace(**vars(CONTEXT) | {"request": request, "stop": Event()})
    opening = moment.open_moment(context, load, check)
    if opened_uuid is None:
        with pytest.raises(TargetInvalid), opening:
            pass
        assert (len(checks) > 1) == (OLD in states)
        return
    with opening as opened:
        assert opened.stored.document.index_uuid == opened_uuid


def _play_opensearch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moment, "open_scan", lambda *_: None)
    monkeypatch.setattr(moment, "close_scan", lambda *_: None)
    monkeypatch.setattr(indices, "refresh_and_count", lambda *_: 3)
    monkeypatch.setattr(dead_letters, "list_ids", lambda *_: frozenset())
