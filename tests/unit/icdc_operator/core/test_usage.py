"""What is used of each limit, from what is observed anyway."""

from dataclasses import replace

import pytest

from icdc_api.base import MAX_TABLES
from icdc_api.job.report_text import MAX_ANNOTATION_BYTES
from icdc_api.job.resources import ResourceKind, UsedResource
from icdc_api.json_size import measure_sent
from icdc_api.spec.limits import MAX_SPEC_BYTES
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_operator.core.limits.usage import Used, measure
from icdc_operator.core.observed import RunPhase
from icdc_testing.operator.deciding.pipelines import (
    make_caught_up,
    make_observed,
    make_report,
    make_seen,
    make_spec,
)

pytestmark = pytest.mark.unit


def test_each_kind_is_measured_as_its_limit_counts_it() -> None:
    status = PipelineStatus(tables=(make_caught_up(dead_letters=7), make_caught_up("shop.items")))
    observed = replace(make_observed(make_spec(), status), status_room=1000)
    usage = measure(observed, status, make_seen(RunPhase.RUNNING, report_bytes=500))
    assert usage.status == Used(measure_sent(status.to_resource()), 1000)
    assert usage.report == Used(500, MAX_ANNOTATION_BYTES)
    assert usage.dead_letters == Used(7, 10000)
    assert usage.spec.used is not None
    assert 0 < usage.spec.used < MAX_SPEC_BYTES == usage.spec.limit


def test_what_a_live_run_has_used_is_in_its_report() -> None:
    known = UsedResource(kind="state_index", used=3, limit=9)
    # Of an image of another version, or of somebody who edited the annotation.
    other = UsedResource(kind="newer", used=1, limit=2)
    report = make_report(make_caught_up()).model_copy(update={"resources": (known, other)})
    for phase, expected in (
        (RunPhase.RUNNING, {ResourceKind.STATE_INDEX: Used(3, 9)}),
        (RunPhase.SUCCEEDED, {}),
    ):
        seen = make_seen(phase, report=report)
        assert measure(make_observed(None), PipelineStatus(), seen).resources == expected


def test_what_is_not_known_is_not_measured() -> None:
    observed = make_observed(None)
    ended = make_seen(RunPhase.SUCCEEDED, report_bytes=500)
    usage = measure(observed, PipelineStatus(), ended)
    assert (usage.spec.used, usage.report.used, usage.status.limit) == (None, None, None)
    assert usage.dead_letters == Used(0, None)
    assert measure(observed, PipelineStatus(), None).report.used is None


def test_the_first_dead_letter_stalls_a_table_where_that_is_the_policy() -> None:
    sink = {"opensearch": {"hosts": ["http://s:9200"], "deadLetters": {"policy": "Stop"}}}
    assert measure(make_observed(make_spec(sink=sink)), PipelineStatus(), None).dead_letters == (
        Used(0, None)
    )


def test_tags_are_those_of_tables_whose_snapshot_is_retained() -> None:
    pinned = [make_caught_up(f"s.t{n}", snapshot_pinned=n > 0) for n in range(MAX_TABLES)]
    status = PipelineStatus(tables=(*pinned[:-1], make_caught_up("s.last")))
    assert measure(make_observed(make_spec()), status, None).pinned_tables == MAX_TABLES - 2
