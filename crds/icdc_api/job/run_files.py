"""The files between the starter of a run and its Spark application.

    operator, icdc --RunRequest (request.json)---> application
    operator -------RunQuestion (question.json)--> application, if it is continuous, now and then
    operator, icdc <--RunReport (report.json)----- application, again and again

All are JSON files that appear whole or not at all. This module knows neither Spark nor a process.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError

from icdc_api.base import (
    MAX_TABLES,
    ApiModel,
    Clipped,
    Count,
    Flag,
    Message,
    ShortText,
    SnapshotId,
    Timestamp,
)
from icdc_api.errors import BadSpec
from icdc_api.job.modes import MAX_PREVIEW_ROWS, RunMode
from icdc_api.job.resources import UsedResource
from icdc_api.spec.pipeline import Pipeline
from icdc_api.status.pipeline_status import TableStatus
from icdc_api.status.runs import Failure
from icdc_api.status.triggers import MAX_ASKED_IDS

# Not a field of the request: an older image refuses a field that it does not know.
QUESTION_VARIABLE = "ICDC_QUESTION_FILE"
"""Environment variable with the path of the file in which a RunQuestion appears, is replaced and
disappears while a continuous run goes on; not set where none will."""

STARTER_VARIABLE = "ICDC_STARTER_VERSION"
"""Environment variable with the version of the program that wrote the request."""

_ADDRESS = ("runId", "owner", "epoch", "reportPath")
"""Fields of a request that say who is to hear of the run; every version has them."""


class _JsonFile(ApiModel):
    def write(self, path: Path) -> None:
        """Write the value to `path`; a reader sees the old file or the new one, always whole."""
        text = json.dumps(self.to_resource(), indent=1, sort_keys=True) + "\n"
        # In the same directory: a rename replaces a file only within one file system.
        # Private from the start: a request may hold credentials that came from `${ENV}`.
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                # Before the rename: after a power loss the name must not stand for an empty file.
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        # Also a KeyboardInterrupt: a half-written request would lie there with its credentials.
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the value in `path`. FileNotFoundError, or BadSpec for another form."""
        return cls.parse(path.read_bytes(), path)

    @classmethod
    def parse(cls, content: bytes, path: Path) -> Self:
        """Return the value in the `content` of `path`. BadSpec for another form."""
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            problem = _describe_first(error)
            raise BadSpec(f"{path} is not a {cls.__name__} of this version: {problem}") from error


def _describe_first(error: ValidationError) -> str:
    """Return field and problem of the first error, without the input: it may hold credentials."""
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    problem = "unknown field" if first["type"] == "extra_forbidden" else first["msg"]
    return f"{field or 'document'}: {problem}"


class Reexport(ApiModel):
    """The last requested re-export, or rollback. Every run gets it; each table honours it once, as
    its state document records."""

    nonce: Count
    """`spec.resync.nonce` that asked for it."""
    tables: Annotated[tuple[ShortText, ...], Field(max_length=MAX_TABLES)] = ()
    """Names of the tables that it is about; empty for all."""
    id: Count | None = None
    """Identifies the request. Absent where the operator cannot know whether it was honoured: then
    a table whose state document has that nonce does not honour it, and none makes a rollback."""
    # Absent for an export: an older image refuses a field that it does not know.
    rollback: Flag | None = None
    """True: readers are switched back to the index before; absent: the tables are exported."""


class RunQuestion(_JsonFile):
    """What a continuous run is asked while it follows its tables. It says nothing of what the
    tables are, nor where they are: only the request does."""

    id: ShortText
    """Identifies the question; the answer repeats it."""
    mode: Literal[
        RunMode.PLAN, RunMode.VERIFY, RunMode.REPAIR, RunMode.DEAD_LETTERS, RunMode.REPLAY
    ]
    """What each table does between two of its batches; see RunRequest."""
    tables: Annotated[tuple[ShortText, ...], Field(max_length=MAX_TABLES)] | None = None
    """Names of the tables that a planned comparison is about; each is brought up to date first.
    Absent when a person asks: then each table answers as it is."""
    only: Annotated[tuple[ShortText, ...], Field(max_length=MAX_TABLES)] | None = None
    """Names of the tables that a person asks `letters` or `replay` of; absent for all."""
    ids: Annotated[tuple[str, ...], Field(min_length=1, max_length=MAX_ASKED_IDS)] | None = None
    """Document ids of the dead letters that `letters` and `replay` are about; absent for all."""


class RunRequest(_JsonFile):
    """The request of one run."""

    run_id: ShortText
    """Identity of this attempt; the report repeats it."""
    mode: RunMode = RunMode.RUN
    """`run` replicates; `plan` and `verify` change nothing; `repair` corrects what differs;
    `delete` deletes all that the pipeline has created; `letters` lists dead letters, and `replay`
    sends them again; `preview` shows documents as they would be."""
    # More than in an `Ask`: a local run reads them from this file, which no annotation bounds.
    ids: Annotated[tuple[str, ...], Field(min_length=1, max_length=10_000)] | None = None
    """Document ids of the dead letters that `letters` and `replay` are about; absent for all."""
    documents: Flag | None = None
    """Whether `letters` shows the refused documents and the reasons word for word, which hold
    values of rows."""
    only: Annotated[tuple[str, ...], Field(max_length=MAX_TABLES)] | None = None
    """Names of the tables that `letters`, `replay` and `preview` are about; absent for all."""
    rows: Annotated[Count, Field(ge=1, le=MAX_PREVIEW_ROWS)] | None = None
    """Rows of each table that `preview` shows; absent for PREVIEW_ROWS and for any other mode."""
    tables: Annotated[tuple[str, ...], Field(max_length=MAX_TABLES)] | None = None
    """Names of the tables that a planned `verify` or `repair` is about, empty for all; what is
    under way in their indices is finished first. Absent when a person asks: then it is about all
    tables, and what is under way is left as it is."""
    reexport: Reexport | None = None
    """What re-export the tables owe. It counts alone: what the pipeline's `spec.resync` says may
    have changed since it was asked for."""
    # Not a `Pipeline`: a spec that the application's version refuses must not make the request
    # unreadable, or there would be no `report_path` to say so in.
    pipeline: dict[str, Any]
    """The whole resource, with `${ENV}` already replaced."""
    owner: ShortText
    """`namespace/name` of the pipeline: who owns the state documents."""
    epoch: Count
    """Fencing number; higher than that of every earlier run."""
    continuous: Flag = False
    """False: end when every table is caught up, complete or stalled. True: keep polling."""
    poll_seconds: Annotated[Count, Field(ge=1)] = 10
    """Seconds between two polls of a table, when continuous or lingering."""
    # Absent unless it is wanted: an older image refuses a field that it does not know.
    linger_seconds: Annotated[Count, Field(ge=1)] | None = None
    """Seconds that a run which has caught up waits for the next commit; absent: it ends."""
    report_path: Annotated[str, Field(min_length=1, max_length=4096)]
    """File that the application keeps up to date with its RunReport."""
    secrets_dir: Annotated[str, Field(max_length=4096)] | None = None
    """Directory that holds `<secret>/<key>` files; absent when no Secret is named."""
    end_with_stdin: Flag = False
    """True: whoever started the run holds the other end of its standard input, and the application
    ends at once when that closes. False where something else ends orphans, as on Kubernetes."""

    @classmethod
    def parse_address(cls, content: bytes) -> Self | None:
        """Return a request with nothing but who is to hear of the run, of one of another version.

        None where not even that can be read.
        """
        try:
            document = json.loads(content)
            address = {field: document[field] for field in _ADDRESS}
            return cls.model_validate({**address, "pipeline": {}})
        except (ValueError, LookupError, TypeError):
            return None

    def parse_pipeline(self) -> Pipeline:
        """Return the pipeline in the request. BadSpec for one that this version refuses."""
        try:
            return Pipeline.model_validate(self.pipeline)
        except ValidationError as error:
            problem = _describe_first(error)
            raise BadSpec(f"The pipeline in the request is not valid: {problem}") from error


class RunReport(_JsonFile):
    """The report of one run so far."""

    run_id: ShortText
    """Identity of the attempt, from its request."""
    started_at: Timestamp
    """When the application began."""
    updated_at: Timestamp
    """When this report was written."""
    finished: Flag = False
    """True in the last report of a run."""
    renewal_seconds: Annotated[Count, Field(ge=1)] | None = None
    """Seconds within which the application writes its report anew, though nothing has changed;
    absent of an older one, whose report may rightly stay as it is for days."""
    tables: Annotated[tuple[TableStatus, ...], Field(max_length=MAX_TABLES)] = ()
    """The same entries as `status.tables[]`."""
    open_sessions: Annotated[tuple[ShortText, ...], Field(max_length=MAX_TABLES)] = ()
    """Names of the tables that have a session of Spark open, and connections to their catalog with
    it. In the last report: tables that hung when the run ended."""
    resources: Annotated[tuple[UsedResource, ...], Field(max_length=32)] | None = None
    """The most that the run has used of what has a limit in bytes, one entry for each kind; absent
    until something was measured."""
    outcome: Failure | None = None
    """Why the run as a whole failed; absent while it is running and when it succeeded."""
    lingers: Flag | None = None
    """True once every table has been caught up, so that the run stays only for later commits;
    absent before, and of a run that ends then."""
    without_executors_since: Timestamp | None = None
    """Since when jobs have waited although no executor is there; absent while one is, or none is
    needed."""
    takes_questions: Flag = False
    """Whether the application reads the file that QUESTION_VARIABLE names."""
    result: dict[str, Any] | None = None
    """Answer of every mode but `run`. Of a continuous run the answer to its last question, so far:
    `question` is its id, and `complete` says whether all tables have answered."""


class DifferingDocuments(ApiModel):
    """Documents that differ in one way: missing, extra or different."""

    count: Count = 0
    """Number of documents."""
    samples: tuple[Clipped, ...] = ()
    """Ids of some of them."""


class TableComparison(ApiModel):
    """The answer of `verify` and `repair` for one table: an entry of `result.tables`."""

    name: ShortText
    """`namespace.table` as in `spec.tables[].name`."""
    index: Clipped | None = None
    """Alias of the index."""
    snapshot_id: SnapshotId | None = None
    """Snapshot that the index was compared with."""
    equal: Flag | None = None
    """Whether both were equal; absent when they could not be compared."""
    rows: Count | None = None
    """Documents that the rows of the table stand for."""
    documents: Count | None = None
    """Documents in the index."""
    missing: DifferingDocuments = DifferingDocuments()
    """Documents missing from the index."""
    extra: DifferingDocuments = DifferingDocuments()
    """Documents of the index without a row."""
    different: DifferingDocuments = DifferingDocuments()
    """Documents that differ from their rows."""
    refused: Count | None = None
    """Rows without a document that are dead letters; absent of an older application."""
    repaired: Count | None = None
    """Documents that were corrected; absent where nothing had to be."""
    under_way: Flag = False
    """Whether a batch was under way, and so may be what differs."""
    reason: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=128)] | None = None
    """Why they could not be compared."""
    message: Message | None = None
    """Why, for a person."""
