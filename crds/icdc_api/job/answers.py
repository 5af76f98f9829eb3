"""The form of a run's answer, which more than one program writes or reads.

The driver writes the answer to `plan`, `verify`, `repair`, `letters`, `replay` and `delete` into
its report; reports are made smaller by both programs, the operator stores a part, the command line
prints it. A key that two of them spelled each by itself could change in one of them alone, so all
keys stand here, and mypy checks each use.

    {"question": "verify-3", "complete": true,
     "tables": [{"name": "shop.orders", "letters": [{"id": "7", "document": "{...}"}]}]}

Dictionaries and not models: a reader takes what another version of the application has written,
with fields that it does not know, and without some that it does. What the operator stores it
validates first: `run_files.TableComparison`.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, NotRequired, TypedDict, TypeVar, cast

BATCH_UNDER_WAY: Final = "BatchUnderWay"
"""As the `reason` of an entry: a batch was open, which has to be finished first, or was partly in
the index, so that its documents are among those that differ."""

DifferenceKind = Literal["missing", "extra", "different"]
DIFFERENCE_KINDS: tuple[DifferenceKind, ...] = ("missing", "extra", "different")
"""The ways in which documents differ, in the order in which they are shown."""


class TableEntry(TypedDict, total=False):
    """One table's part of an answer; every mode adds keys of its own."""

    name: str
    """`namespace.table` as in `spec.tables[].name`."""
    index: str
    """Alias of the index."""
    reason: str | None
    """Why the table could not answer, as one word."""
    message: str | None
    """The same for a person; without a `reason`, a remark on the answer."""


class WorkEstimate(TypedDict):
    """What a step costs, each as what it takes at least and at most; without the run's start."""

    cpuSeconds: list[float]
    """CPU seconds of driver and executors; OpenSearch's are not among them."""
    seconds: list[float]
    """Seconds, if all executors of the spec are there and OpenSearch is not the slower part."""


class PlanEntry(TableEntry, total=False):
    """What the next run would do with a table; by what writers state of a backlog that is not
    planned as a whole."""

    mode: str
    """The kind of the step, as `StepKind` names it."""
    fromSnapshotId: str | None
    """The applied snapshot; None where the step does not begin at one."""
    toSnapshotId: str | None
    """The snapshot that the step would apply."""
    why: str
    """Why this step, for a person; empty where nothing has to be explained."""
    mappingChanges: list[str]
    """Fields that the batch would add to the index, each with its type."""
    filesAdded: int
    """Data files that only the later snapshot has; all files of an export."""
    filesRemoved: int
    """Data files that only the applied snapshot has."""
    filesWithNewDeletes: int
    """Data files of both snapshots to which new delete files apply."""
    rows: int
    """Rows in the files that would be read, deleted ones included."""
    bytes: int
    """Size of the files that would be read."""
    tableBytes: int | None
    """Size of the files that an export would read instead; None where changes are not applied, or
    the writer of the snapshot did not state it."""
    tableRows: int | None
    """Rows that an export would write instead; None as for `tableBytes`."""
    strategy: str | None
    """How rows would be compared; None where none are."""
    estimate: WorkEstimate | None
    """What the step would cost; None where nothing is read."""
    exportEstimate: WorkEstimate | None
    """What an export in place of changes would cost; None as for `tableRows`."""
    cheaper: str | None
    """Which of both takes less CPU, `Changelog` or `Export`; None where that depends on how many
    rows differ, and where there is no choice."""


class Differences(TypedDict):
    """Documents that differ in one way."""

    count: int
    """Number of documents."""
    samples: list[str]
    """The first ids, in order; a report that is too large has none."""


class ComparisonEntry(TableEntry, total=False):
    """The result of comparing an index with its table, and of a repair."""

    snapshotId: str | None
    """The snapshot that the index was compared with; None of a table without any."""
    equal: bool | None
    """Whether both were equal; absent where they could not be compared."""
    rows: int | None
    """Documents that the rows of the table stand for."""
    documents: int | None
    """Documents in the index."""
    missing: Differences | None
    """Documents missing from the index."""
    extra: Differences | None
    """Documents of the index without a row."""
    different: Differences | None
    """Documents that differ from their rows."""
    refused: int | None
    """Rows without a document that are dead letters: no difference."""
    repaired: int | None
    """Documents that were corrected; None where nothing was written."""
    underWay: bool
    """Whether a batch was under way, and so may be what differs."""


class DeadLetterEntry(TypedDict, total=False):
    """A row that an index refused, as it is stored and listed."""

    id: str
    """The document's `_id`."""
    reason: str
    """What OpenSearch said; without values of rows, unless documents were asked for."""
    errorType: str
    """OpenSearch's name of the error."""
    document: str
    """The refused document; absent where it was not asked for, or was too large to be stored."""
    documentBytes: int
    """Its size."""
    table: str
    """The name of the table."""
    snapshotId: str
    """The snapshot that the batch wrote."""
    ordinal: int
    """The ordinal of the batch."""
    at: str
    """When it was refused."""


# By a call, because the key is a word on the wire, as `RunMode`'s, and no name in our code.
_Listed = TypedDict("_Listed", {"letters": list[DeadLetterEntry]}, total=False)  # noqa: UP013


class DeadLettersEntry(TableEntry, _Listed, total=False):
    """The rows that an index refused; `letters` holds those of the newest batches."""

    count: int
    """All dead letters of the table."""


class ReplayEntry(TableEntry, total=False):
    """What became of refused rows that were sent again."""

    resent: int
    """Rows that were sent."""
    left: int
    """Rows that are dead letters still."""
    samples: list[str]
    """Some of their ids."""


class DeletionEntry(TableEntry, total=False):
    """What was deleted of a table that is followed no longer."""

    deleted: list[str]
    """Indices that were deleted."""
    left: list[str]
    """Indices that were not."""
    tags: str | None
    """Why tags of the table may be left; None where none is."""


class PreviewDocument(TypedDict):
    """A row as it would be indexed."""

    _id: str
    """The document's id."""
    _source: dict[str, Any]
    """The document; where there is none, the columns that it would be made of."""
    _routing: NotRequired[str]
    """The routing, where the table has one."""
    failed: NotRequired[str]
    """The field whose expression fails on the row: it becomes a dead letter, and no document."""


class PreviewEntry(TableEntry, total=False):
    """Some documents of a table, as an export of its current snapshot would write them."""

    snapshotId: str | None
    """The snapshot whose rows these are; None of an empty table."""
    documents: list[PreviewDocument]
    """The documents of the first rows that have any."""
    mapping: dict[str, Any]
    """The mapping of a new index, without its `_meta`."""


class RunAnswer(TypedDict, total=False):
    """The `result` of a run's report."""

    question: str | None
    """The id of the question that a run was asked while it followed its tables; absent for a run
    that was started to answer."""
    complete: bool
    """True once all tables that were asked have an entry."""
    tables: list[Any]
    """The entries, each a TableEntry of the mode's own kind."""


Form = TypeVar("Form", bound=TableEntry | Differences | DeadLetterEntry | WorkEstimate | RunAnswer)


def fill(form: type[Form], written: Mapping[str, Any]) -> Form:
    """Return what a program of any version has written, with None for each key that it lacks.

    So that readers can take values by subscript, whose keys mypy checks; those of `get` it does
    not.
    """
    return cast(Form, {**dict.fromkeys(form.__annotations__), **written})
