"""`spec.changelog`: how a pipeline follows its tables once they are exported."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from icdc_api.base import ApiModel, Count

# At most a year.
Seconds = Annotated[Count, Field(le=31536000)]


# In short what fields that have these values say at length, in the CRD.
class Trigger(StrEnum):
    """When a changelog run starts."""

    ON_COMMIT = "OnCommit"  # a run when there is a new snapshot
    CONTINUOUS = "Continuous"  # one application that polls all the time


class OnProblem(StrEnum):
    """What to do when an index can no longer be brought up to date by changes."""

    REEXPORT = "Reexport"  # fill a new index while the old one serves readers
    STOP = "Stop"  # stall the table until a person acts


class PinSnapshots(StrEnum):
    """Whether a tag keeps the applied snapshot."""

    AUTO = "Auto"  # where the catalog allows it
    ALWAYS = "Always"  # the table stalls where the catalog does not
    NEVER = "Never"  # a snapshot that expires is a gap


class SwitchProof(StrEnum):
    """What is compared before readers get a new index."""

    COUNT = "Count"  # numbers
    SAMPLE = "Sample"  # also about a thousand documents with their rows
    ALL = "All"  # also every document with its row


class Changelog(ApiModel):
    """How the pipeline follows its tables after the export."""

    trigger: Trigger = Trigger.ON_COMMIT
    """OnCommit: a run starts only when a table has a new snapshot, where the operator can read the
    catalog; otherwise runs poll. Continuous: one application runs all the time. Default OnCommit.
    Continuous is excluded by mode ExportOnly."""
    poll_interval_seconds: Annotated[Seconds, Field(ge=1, le=86400)] = 10
    """Seconds between two polls for new snapshots. Default 10. Where runs poll, they start less and
    less often while nothing is new, down to every 10 minutes."""
    # None and not 0: a default in the CRD is in every spec, and images of the version before refuse
    # a field that they do not know.
    linger_seconds: Annotated[Seconds, Field(le=86400)] | None = None
    """Seconds that a run which has caught up waits for the next commit, so that not every commit
    starts an application. Default 0. It ends at once where another pipeline waits for a run, or a
    table has failed. Without effect with trigger Continuous, which never ends."""
    # 16 GiB, in bytes because CEL and YAML know no units.
    max_bytes_per_batch: Annotated[Count, Field(ge=1)] = 17179869184
    """Bytes of data files, as compressed, that one batch may read. A larger backlog
    is applied in several batches, oldest snapshots first, so that progress shows. A single
    snapshot is never split. Default 17179869184."""
    rebuild_above: Annotated[float, Field(strict=True, ge=0, le=10)] | None = None
    """Share of the table's bytes above which changes are not applied: the table is exported again,
    while the old index serves. 0.5: files with more than half of the table's bytes would be read,
    on both sides of a rewrite. A table of few files may then be exported with each commit. `icdc
    plan` estimates both. Default 0: never. Without effect in the modes StreamOnly and ExportOnly,
    and outside of sink.opensearch.limits.exportWindow."""
    on_gap: OnProblem = OnProblem.REEXPORT
    """What happens when the changes since the applied snapshot are no longer available, because it
    expired or the table was replaced. Reexport: fill a new index while the old one serves. Stop:
    the table stalls. Default Reexport."""
    on_incompatible_schema: OnProblem = OnProblem.REEXPORT
    """What happens when documents already written would differ, because schema, columns or filter
    changed. Reexport: fill a new index while the old one serves. Stop: the table stalls. Default
    Reexport."""
    prove_before_switch: SwitchProof | None = None
    """What is compared with the table before readers get the index of an export. Count: the number
    of documents. Sample: also about 1000 documents, of up to four chunks. All: also every document,
    which reads table and index once more. If they differ, readers stay where they are, and the
    export is repeated once; then the table stalls. Default Sample."""
    pin_snapshots: PinSnapshots = PinSnapshots.AUTO
    """A tag `icdc-<index>-<key>` prevents the applied snapshot from being expired; the tag itself
    expires 30 days after the last run that could renew it. Auto: set the tag if the catalog allows
    it. Always: stall the table if it does not. Never: set no tag, and remove those of tables that
    are still followed. Default Auto."""

    @property
    def switch_proof(self) -> SwitchProof:
        """What is compared before readers get a new index."""
        return self.prove_before_switch or SwitchProof.SAMPLE
