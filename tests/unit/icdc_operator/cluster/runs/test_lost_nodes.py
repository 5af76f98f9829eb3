"""A node that is lost, as the control plane tells of it, played from beginning to end."""

import pytest

from icdc_api.errors import FailureClass
from icdc_api.status.runs import RunState
from icdc_testing.operator.adapter.objects import NODE_SILENT, go_back, make_pod, make_running
from icdc_testing.operator.adapter.sequences import Moment, play
from icdc_testing.operator.adapter.spark_operator import WELL, WORKS, begin

pytestmark = pytest.mark.unit

SILENT = make_pod("Running", state=make_running(), status=NODE_SILENT)
EVICTED = make_pod(
    "Running", state=make_running(), status=NODE_SILENT, deletionTimestamp=go_back(-210)
)
"""At 90 s, with a grace period of 120 s."""


def test_a_run_whose_node_is_lost_is_over_as_soon_as_its_pod_is_evicted() -> None:
    steps = begin(Moment(60, pod=SILENT), Moment(90, "UNKNOWN", pod=EVICTED))
    played = play(steps, node_dead=True)
    assert any("once Kubernetes evicts the pod" in text for text in played.said)
    assert played.ended is not None
    assert played.ended.failure is not None
    assert played.ended.failure.failure_class == FailureClass.NODE_LOST
    assert played.ended.failure.reason == "NodeNotResponding"
    # Not before it was evicted, and not as late as its grace period ends.
    assert 90 <= played.closed_after < 105
    assert played.next_after is not None
    assert played.next_after <= 5


def test_a_node_that_does_not_answer_for_a_while_ends_no_run() -> None:
    steps = begin(
        Moment(60, pod=SILENT), Moment(85, pod=WORKS), Moment(120, "SUCCEEDING", pod=WELL)
    )
    played = play(steps)
    assert any("does not answer" in text for text in played.said)
    assert played.ended is not None
    assert played.ended.state == RunState.SUCCEEDED
    assert played.closed_after >= 120
