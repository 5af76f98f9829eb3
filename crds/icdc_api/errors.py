"""The one tree of errors, shared by the operator and the Spark application.

Every failure that a user can meet is one class here, and says three things: its failure class
(design: what retry policy applies), whether trying again can help, and who must act next.
Foreign errors (py4j, Spark, OpenSearch, the file system) are mapped to this tree at one border
each; nothing else raises them. This module knows no foreign library.

    IcdcError
      BadSpec                 the pipeline is wrong by itself
      Fenced                  a newer run owns the index
      Bug                     what nobody foresaw; of one table it stalls that table alone
      PassingError            may heal by itself
        SourceUnavailable  TargetUnavailable  Throttled
      TableError              stalls one table, the others go on
        Gap  IncompatibleSchema  AliasTaken  TableNotFound  BranchNotFound  ColumnNotFound
        FilterInvalid  UnsupportedType  NoIdentifier  NotAppendOnly  DataFileMissing
        FileUnreadable  DeadLetterLimit  TargetReadOnly  TargetInvalid  StateCorrupt
        Unauthorized  CatalogInvalid  MappingInvalid
      RunError                the run itself, before or beside its tables
        Submission  ImagePull  Unschedulable  StartTimeout  OutOfMemory  DiskFull  NodeLost
          DriverLost          nothing of the run can go on
"""

from enum import StrEnum
from typing import ClassVar


class FailureClass(StrEnum):
    """Why a run failed, in the words of `status.lastRun.failure.class`."""

    SUBMISSION = "Submission"
    IMAGE_PULL = "ImagePull"
    UNSCHEDULABLE = "Unschedulable"
    START_TIMEOUT = "StartTimeout"
    OUT_OF_MEMORY = "OutOfMemory"
    DISK_FULL = "DiskFull"
    NODE_LOST = "NodeLost"
    SOURCE_UNAVAILABLE = "SourceUnavailable"
    TARGET_UNAVAILABLE = "TargetUnavailable"
    THROTTLED = "Throttled"
    AUTH = "Auth"
    GAP = "Gap"
    INCOMPATIBLE_SCHEMA = "IncompatibleSchema"
    BAD_SPEC = "BadSpec"
    DEAD_LETTER_LIMIT = "DeadLetterLimit"
    FENCED = "Fenced"
    BUG = "Bug"


class WhoActs(StrEnum):
    """Who must do something before the failure can go away."""

    NOBODY = "nobody: it is retried"
    DATA_ENGINEER = "the author of the pipeline"
    TABLE_OWNER = "the owner of the Iceberg table"
    SEARCH_ADMIN = "the administrator of OpenSearch"
    PLATFORM = "the platform engineer"
    MAINTAINER = "the maintainers of iceberg-cdc-operator"


class IcdcError(Exception):
    """Root of the tree. The message is one or two sentences for a person, without row content."""

    failure_class: ClassVar[FailureClass] = FailureClass.BUG
    retryable: ClassVar[bool] = False
    who_acts: ClassVar[WhoActs] = WhoActs.MAINTAINER

    @property
    def message(self) -> str:
        """The text for status fields and stderr."""
        return str(self)


class BadSpec(IcdcError):
    """The pipeline cannot be right whatever the catalog holds; the message names the field."""

    failure_class = FailureClass.BAD_SPEC
    who_acts = WhoActs.DATA_ENGINEER


class Fenced(IcdcError):
    """Another run owns the index; this one has stopped writing.

    `epoch` and `run_id` are those of the owner, None where they are not known.
    """

    failure_class = FailureClass.FENCED
    retryable = True
    who_acts = WhoActs.NOBODY

    def __init__(self, message: str, *, epoch: int | None = None, run_id: str | None = None):
        super().__init__(message)
        self.epoch = epoch
        self.run_id = run_id


class Bug(IcdcError):
    """An error that no border foresaw; the message keeps its type and text."""


class PassingError(IcdcError):
    """A fault outside that may heal by itself; retried with backoff."""

    retryable = True
    who_acts = WhoActs.NOBODY


class SourceUnavailable(PassingError):
    """The catalog or the table's files cannot be reached."""

    failure_class = FailureClass.SOURCE_UNAVAILABLE


class TargetUnavailable(PassingError):
    """OpenSearch cannot be reached or answers 5xx."""

    failure_class = FailureClass.TARGET_UNAVAILABLE


class Throttled(PassingError):
    """OpenSearch kept answering 429 until the retries were used up."""

    failure_class = FailureClass.THROTTLED


class TableError(IcdcError):
    """Stalls one table until a person acts; `reason` is the one in `status.tables[].reason`."""

    failure_class = FailureClass.BAD_SPEC
    who_acts = WhoActs.DATA_ENGINEER

    @property
    def reason(self) -> str:
        """The CamelCase reason: the name of the class."""
        return type(self).__name__


class Gap(TableError):
    """The changes since the applied snapshot can no longer be known."""

    failure_class = FailureClass.GAP


class IncompatibleSchema(TableError):
    """Documents already written would differ under the new schema or spec."""

    failure_class = FailureClass.INCOMPATIBLE_SCHEMA


class AliasTaken(TableError):
    """The index name belongs to somebody else: another pipeline, or an index not made by us."""


class TableNotFound(TableError):
    """The catalog has no table of that name."""

    who_acts = WhoActs.TABLE_OWNER


class BranchNotFound(TableError):
    """The table has no branch of that name."""


class ColumnNotFound(TableError):
    """A column that the pipeline names is not in the table."""


class FilterInvalid(TableError):
    """`rowFilter` cannot be evaluated on the table."""


class UnsupportedType(TableError):
    """A column's type has no document form, or cannot be part of an id."""


class NoIdentifier(TableError):
    """Neither the pipeline nor the table says which columns identify a row."""


class NotAppendOnly(TableError):
    """A table declared `appendOnly` was changed other than by appending."""

    who_acts = WhoActs.TABLE_OWNER


class DataFileMissing(TableError):
    """A file that a retained snapshot refers to is gone."""

    who_acts = WhoActs.TABLE_OWNER
    failure_class = FailureClass.GAP


class FileUnreadable(TableError):
    """A file of the table is damaged, or not such that it can be read as the table's."""

    who_acts = WhoActs.TABLE_OWNER
    failure_class = FailureClass.GAP


class DeadLetterLimit(TableError):
    """More rows were refused by the index than the pipeline allows."""

    failure_class = FailureClass.DEAD_LETTER_LIMIT


class TargetReadOnly(TableError):
    """The index or cluster refuses writes by a block."""

    failure_class = FailureClass.TARGET_UNAVAILABLE
    who_acts = WhoActs.SEARCH_ADMIN


class TargetInvalid(TableError):
    """An index is not what was made: its settings, mapping, pipeline or template change rows."""

    failure_class = FailureClass.TARGET_UNAVAILABLE
    who_acts = WhoActs.SEARCH_ADMIN


class StateCorrupt(TableError):
    """The state document is not one we wrote; it is left as it is."""

    who_acts = WhoActs.SEARCH_ADMIN


class Unauthorized(TableError):
    """Credentials are missing, wrong or not sufficient."""

    failure_class = FailureClass.AUTH
    who_acts = WhoActs.PLATFORM


class CatalogInvalid(TableError):
    """No catalog can be made of `catalog.properties`, or only with a class that Spark lacks."""


class MappingInvalid(TableError):
    """OpenSearch refuses the mapping or the settings that the table's index needs."""


class RunError(IcdcError):
    """The run could not start or was taken away."""

    who_acts = WhoActs.PLATFORM


class Submission(RunError):
    """The application could not be submitted."""

    failure_class = FailureClass.SUBMISSION


class ImagePull(RunError):
    """The container image cannot be pulled."""

    failure_class = FailureClass.IMAGE_PULL
    retryable = True


class Unschedulable(RunError):
    """No node has room for the run."""

    failure_class = FailureClass.UNSCHEDULABLE
    retryable = True


class StartTimeout(RunError):
    """The run did not start within `timeouts.startSeconds`."""

    failure_class = FailureClass.START_TIMEOUT
    retryable = True


class OutOfMemory(RunError):
    """The driver or an executor was killed for memory."""

    failure_class = FailureClass.OUT_OF_MEMORY
    retryable = True
    who_acts = WhoActs.DATA_ENGINEER


class DiskFull(RunError):
    """A disk of driver or executor has no room for what Spark spills and shuffles. Retried, since
    it passes where others filled the disk; if it does not, somebody must give room."""

    failure_class = FailureClass.DISK_FULL
    retryable = True


class NodeLost(RunError):
    """The process or node went away through no fault of the run; retried at once, not counted."""

    failure_class = FailureClass.NODE_LOST
    retryable = True
    who_acts = WhoActs.NOBODY


class DriverLost(NodeLost):
    """The driver's JVM or its SparkContext went away, and with it every table's work."""
