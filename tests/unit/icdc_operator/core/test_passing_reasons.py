"""What a table may meet that passes: the run that met it failed, and is tried again."""

import pytest

from icdc_api.status.pipeline_status import TableReason
from icdc_operator.core import retry

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("reason", sorted(retry.PASSING_REASONS))
def test_a_fault_of_a_table_that_passes_is_a_failure_of_its_own_class(reason: TableReason) -> None:
    failure = retry.build_passing_failure("shop.orders", reason=reason.value, message="lost")
    assert (failure.failure_class.value, failure.retryable) == (reason.value, True)


def test_every_reason_from_source_unavailable_on_passes() -> None:
    reasons = list(TableReason)
    passing = reasons[reasons.index(TableReason.SOURCE_UNAVAILABLE) :]
    assert set(passing) == retry.PASSING_REASONS
