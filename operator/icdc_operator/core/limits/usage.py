"""Measure how much of each limit a pipeline has used, from what is observed anyway. Pure.

Each limit is held where the state is written: a spec is refused, a status and a report are cut, a
table with too many dead letters is stalled. This module only measures, so that a person can see a
limit come near. The table of limits is in docs/architecture.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from icdc_api.job.report_text import MAX_ANNOTATION_BYTES
from icdc_api.job.resources import ResourceKind
from icdc_api.json_size import measure_stored
from icdc_api.spec.limits import MAX_SPEC_BYTES
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.spec.sink import DeadLetterPolicy
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_operator.core import progress
from icdc_operator.core.limits import status_size
from icdc_operator.core.observed import Observed, RunSeen


class Used(NamedTuple):
    """One kind of state; None for what is not known."""

    used: int | None = None
    """How much of it there is."""
    limit: int | None = None
    """How much there may be."""


@dataclass(frozen=True)
class Usage:
    """What a pipeline stores for itself, beside its limits."""

    spec: Used
    """Bytes of the spec, with its defaults."""
    status: Used
    """Bytes of the status, and what spec, annotations and managed fields leave for it."""
    report: Used
    """Bytes of the live run's report, compressed."""
    dead_letters: Used
    """Most dead letters of one table; no limit where the first one stalls it."""
    pinned_tables: int
    """Tables whose applied snapshot is retained by a tag."""
    resources: Mapping[ResourceKind, Used] = field(default_factory=dict, kw_only=True)
    """What the live run has used most, by its report; only kinds that it has measured."""
    proof: Used
    """Time of the oldest comparison since 1970, and how old it may become, in seconds."""


def measure(observed: Observed, status: PipelineStatus, run: RunSeen | None) -> Usage:
    """Return what is used by the observed spec, a `status` and the current `run`."""
    spec = observed.spec
    report_bytes = run.report_bytes if run is not None and run.live else None
    return Usage(
        spec=Used(None if spec is None else measure_stored(spec.to_resource()), MAX_SPEC_BYTES),
        status=Used(status_size.measure(status), observed.status_room),
        report=Used(report_bytes, MAX_ANNOTATION_BYTES),
        dead_letters=Used(
            max((table.dead_letters for table in status.tables), default=0),
            _get_dead_letters_limit(spec),
        ),
        # None: no run has tried yet.
        pinned_tables=sum(table.snapshot_pinned is True for table in status.tables),
        resources=_read_resources(run),
        proof=_measure_proof(spec, status),
    )


def _read_resources(run: RunSeen | None) -> dict[ResourceKind, Used]:
    report = run.report if run is not None and run.live else None
    resources = (report and report.resources) or ()
    # Other kinds are of an image of another version, or of somebody who edited the annotation.
    return {
        ResourceKind(resource.kind): Used(resource.used, resource.limit)
        for resource in resources
        if resource.kind in set(ResourceKind)
    }


def _measure_proof(spec: PipelineSpec | None, status: PipelineStatus) -> Used:
    oldest = progress.find_oldest_proof(status)
    used = None if oldest is None else int(oldest.timestamp())
    # A pipeline that is suspended compares nothing, which is no fault.
    interval = None if spec is None or spec.suspend else spec.proof_interval
    return Used(used) if interval is None else Used(used, int(interval.total_seconds()))


def _get_dead_letters_limit(spec: PipelineSpec | None) -> int | None:
    # With any other policy the first refused row stalls its table.
    if spec is None or spec.sink.opensearch.dead_letters.policy is not DeadLetterPolicy.INDEX:
        return None
    return spec.sink.opensearch.dead_letters.max_rows
