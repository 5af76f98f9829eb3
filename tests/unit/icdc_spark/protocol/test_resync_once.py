"""Whether a table still owes the re-export that was asked for, by what its state document says."""

import pytest

from icdc_spark.protocol.policies import Policies
from icdc_spark.protocol.state_document import Owner, SourceTable, StateDocument

pytestmark = pytest.mark.unit

NOW = "2026-03-01T10:00:00Z"


@pytest.mark.parametrize(
    ("honoured", "asked", "owed"),
    [
        ((0, None), (0, None), False),
        ((0, None), (1, None), True),
        ((1, None), (1, None), False),
        # A pipeline that is made again counts its nonces anew.
        ((3, None), (1, None), True),
        ((3, 77), (3, 78), True),
        # The same request once more, as after a crash between the swap and the last report.
        ((3, 77), (3, 77), False),
        # Of a request from before the status was lost no more is known than its nonce.
        ((3, 77), (3, None), False),
        # An earlier version remembered no request.
        ((3, None), (3, 77), True),
    ],
)
def test_a_request_is_honoured_once(
    honoured: tuple[int, int | None], asked: tuple[int, int | None], owed: bool
) -> None:
    state = StateDocument(
        alias="orders",
        owner=Owner(pipeline="default/shop", epoch=1, run_id="run-1"),
        source=SourceTable(table="shop.orders", uuid="t-1", branch="main"),
        document_spec="abc",
        updated_at=NOW,
    ).with_resync(*honoured, now=NOW)
    policies = Policies(
        reexport_on_gap=True,
        reexport_on_incompatible_schema=True,
        export_only=False,
        stream_only=False,
        resync_nonce=asked[0],
        resync_id=asked[1],
    )
    assert policies.owe_reexport(state) == owed
