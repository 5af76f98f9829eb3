"""What a task holds is bounded by its requests under way, as `worker_memory` reckons with it."""

import pytest

from icdc_spark.opensearch.bulk.worker_memory import COPIES, MIB, REQUEST_BYTES, WORKER_BYTES
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Delay
from icdc_testing.target.sink_memory import measure_peak

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("index")]

MAX_BYTES = 4 * MIB
ROWS = 12_000


def test_each_further_request_takes_what_the_budget_of_a_worker_reckons_with(
    proxy: FaultProxy,
) -> None:
    # So slow that as many requests as allowed are under way at a time.
    proxy.add(Delay(0.5), path="_bulk", times=None)
    one, eight = (measure_peak(proxy.url, ROWS, MAX_BYTES, requests) for requests in (1, 8))
    reckoned = 7 * (COPIES * MAX_BYTES + REQUEST_BYTES)
    assert 7 * MAX_BYTES < eight - one < reckoned
    assert one < WORKER_BYTES
