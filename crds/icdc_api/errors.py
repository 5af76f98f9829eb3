"""The one tree of errors, shared by the operator and the Spark application.

Every failure that a user can meet is one class here, and says how it is retried and who must act.
Foreign errors (py4j, Spark, OpenSearch, files) are mapped to this tree at one border each.

    IcdcError                 BadSpec  Fenced (a newer run owns the index)  Bug (nobody expected it)
      PassingError            SourceUnavailable  TargetUnavailable  Throttled  NoProgress
      TableError              stalls one table alone: Gap  IncompatibleSchema  RollbackRefused
        AliasTaken  TableNotFound  BranchNotFound  ColumnNotFound  FilterInvalid  FieldInvalid
        UnsupportedType  NoIdentifier  NotAppendOnly  DataFileMissing  FileUnreadable  Unauthorized
        DeadLetterLimit  TargetReadOnly  TargetInvalid  StateCorrupt  CatalogInvalid  MappingInvalid
      RunError  Submission  ImagePull  Unschedulable  StartTimeout  OutOfMemory  DiskFull  NodeLost
"""

from enum import StrEnum
from typing import ClassVar


class FailureClass(StrEnum):
    """Why a run failed: the values of `status.lastRun.failure.class`."""

    SUBMISSION = "Submission"  # the application could not be created; retried slowly
    IMAGE_PULL = "ImagePull"  # retried; the platform engineer checks name and secret
    UNSCHEDULABLE = "Unschedulable"  # no node has room; retried
    START_TIMEOUT = "StartTimeout"  # later than timeouts.startSeconds; retried
    OUT_OF_MEMORY = "OutOfMemory"  # retried; spec.spark gives more
    DISK_FULL = "DiskFull"  # of driver or executor; retried
    NODE_LOST = "NodeLost"  # retried at once, not counted
    SOURCE_UNAVAILABLE = "SourceUnavailable"  # catalog or files; retried
    TARGET_UNAVAILABLE = "TargetUnavailable"  # OpenSearch; retried unless an index is at fault
    THROTTLED = "Throttled"  # 429 of OpenSearch; retried
    NO_PROGRESS = "NoProgress"  # a step did nothing for too long; retried
    AUTH = "Auth"  # retried slowly: credentials are rotated unseen
    GAP = "Gap"  # changes or files that a table needs are lost
    INCOMPATIBLE_SCHEMA = "IncompatibleSchema"  # written documents would differ
    BAD_SPEC = "BadSpec"  # spec and table do not fit; the reason says who acts
    DEAD_LETTER_LIMIT = "DeadLetterLimit"  # more rows are refused than allowed
    FENCED = "Fenced"  # a newer run owns the index; retried above its epoch
    BUG = "Bug"  # an error that nobody expected; the maintainers act


class WhoActs(StrEnum):
    """Who must act before the failure can be resolved."""

    NOBODY = "nobody: it is retried"
    DATA_ENGINEER = "the author of the pipeline"
    TABLE_OWNER = "the owner of the Iceberg table"
    SEARCH_ADMIN = "the administrator of OpenSearch"
    PLATFORM = "the platform engineer"
    MAINTAINER = "the maintainers of iceberg-cdc-operator"


class IcdcError(Exception):
    """Root of the tree. The message is one or two sentences for a person, without row content."""

    failure_class: ClassVar[FailureClass] = FailureClass.BUG  # selects how it is retried
    retryable: ClassVar[bool] = False  # whether an attempt may succeed though nobody acts
    who_acts: ClassVar[WhoActs] = WhoActs.MAINTAINER  # printed with the message

    @property
    def message(self) -> str:
        """The message for status fields and stderr."""
        return str(self)


class BadSpec(IcdcError):
    """The spec is invalid, whatever the catalog holds; the message names the field."""

    failure_class = FailureClass.BAD_SPEC
    who_acts = WhoActs.DATA_ENGINEER


class Fenced(IcdcError):
    """Another run owns the index (`epoch` and `run_id`, where they are known); this one stops."""

    failure_class = FailureClass.FENCED
    retryable = True  # by a run with an epoch above that of the owner
    who_acts = WhoActs.NOBODY

    def __init__(self, message: str, *, epoch: int | None = None, run_id: str | None = None):
        super().__init__(message)
        self.epoch, self.run_id = epoch, run_id


class Bug(IcdcError):
    """An unexpected error; the message has its type and text."""


class PassingError(IcdcError):
    """A fault outside of the pipeline that may pass by itself; retried with backoff."""

    retryable = True
    who_acts = WhoActs.NOBODY


class SourceUnavailable(PassingError):
    """The catalog or the table's files cannot be reached."""

    failure_class = FailureClass.SOURCE_UNAVAILABLE


class TargetUnavailable(PassingError):
    """OpenSearch cannot be reached or answers 5xx."""

    failure_class = FailureClass.TARGET_UNAVAILABLE


class Throttled(PassingError):
    """OpenSearch answered 429 again and again until the retries were used up."""

    failure_class = FailureClass.THROTTLED


class NoProgress(PassingError):
    """A step of a table did nothing for so long that it was cancelled."""

    failure_class = FailureClass.NO_PROGRESS


class TableError(IcdcError):
    """Stalls one table until a person acts; `reason` is the one in `status.tables[].reason`."""

    failure_class = FailureClass.BAD_SPEC
    who_acts = WhoActs.DATA_ENGINEER

    @property
    def reason(self) -> str:
        """The CamelCase reason: the name of the class."""
        return type(self).__name__


class Gap(TableError):
    """The changes since the applied snapshot are no longer available: it expired, for example."""

    failure_class = FailureClass.GAP


class IncompatibleSchema(TableError):
    """Written documents would differ under the new schema or spec."""

    failure_class = FailureClass.INCOMPATIBLE_SCHEMA


class AliasTaken(TableError):
    """The index name is in use: by another pipeline, or by an index that no pipeline created."""


class TableNotFound(TableError):
    """The catalog has no table of that name."""

    who_acts = WhoActs.TABLE_OWNER


class BranchNotFound(TableError):
    """The table has no branch of that name."""


class ColumnNotFound(TableError):
    """A column that the pipeline names is not in the table."""


class FilterInvalid(TableError):
    """`rowFilter` cannot be evaluated on the table."""


class FieldInvalid(TableError):
    """An entry of `fields` or `routing` does not fit the table, or fails on most rows."""


class UnsupportedType(TableError):
    """The type of a column cannot be indexed, or not be part of an id."""


class NoIdentifier(TableError):
    """Neither the pipeline nor the table says which columns identify a row."""


class NotAppendOnly(TableError):
    """A table with `appendOnly` has a commit that does not only append rows."""

    who_acts = WhoActs.TABLE_OWNER


class DataFileMissing(TableError):
    """A file of a retained snapshot is missing."""

    who_acts = WhoActs.TABLE_OWNER
    failure_class = FailureClass.GAP


class FileUnreadable(TableError):
    """A file of the table is damaged, or does not have the schema of the table."""

    who_acts = WhoActs.TABLE_OWNER
    failure_class = FailureClass.GAP


class DeadLetterLimit(TableError):
    """The index refuses more rows than `deadLetters.maxRows`; with the policy Stop, any."""

    failure_class = FailureClass.DEAD_LETTER_LIMIT


class TargetReadOnly(TableError):
    """A block of index or cluster refuses writes, or the cluster takes no more shards."""

    failure_class = FailureClass.TARGET_UNAVAILABLE
    who_acts = WhoActs.SEARCH_ADMIN


class TargetInvalid(TableError):
    """An index is not as it was created: settings, mapping, pipeline or template change rows."""

    failure_class = FailureClass.TARGET_UNAVAILABLE
    who_acts = WhoActs.SEARCH_ADMIN


class StateCorrupt(TableError):
    """The state document was not written by a run; it is left unchanged."""

    who_acts = WhoActs.SEARCH_ADMIN


class Unauthorized(TableError):
    """Credentials are missing, wrong or have too few permissions."""

    failure_class = FailureClass.AUTH
    who_acts = WhoActs.PLATFORM


class CatalogInvalid(TableError):
    """No catalog can be created from `catalog.properties`, or a class of it is missing in Spark."""


class MappingInvalid(TableError):
    """OpenSearch refuses the mapping or the settings that the table's index needs."""


class RollbackRefused(TableError):
    """Readers cannot be switched back to the earlier index: the message says why."""


class RunError(IcdcError):
    """The run could not start, or lost its driver or its resources."""

    who_acts = WhoActs.PLATFORM


class Submission(RunError):
    """The application could not be submitted."""

    failure_class = FailureClass.SUBMISSION


class ImagePull(RunError):
    """The container image cannot be pulled."""

    failure_class = FailureClass.IMAGE_PULL
    retryable = True


class Unschedulable(RunError):
    """No node has enough free resources for the run."""

    failure_class = FailureClass.UNSCHEDULABLE
    retryable = True


class StartTimeout(RunError):
    """The run, or any executor of it, did not start within `timeouts.startSeconds`."""

    failure_class = FailureClass.START_TIMEOUT
    retryable = True


class OutOfMemory(RunError):
    """The driver or an executor was killed for memory."""

    failure_class = FailureClass.OUT_OF_MEMORY
    retryable = True
    who_acts = WhoActs.DATA_ENGINEER  # spec.spark has the memory of driver and executors


class DiskFull(RunError):
    """A disk of driver or executor is full. Retried, since others may have filled it."""

    failure_class = FailureClass.DISK_FULL
    retryable = True


class NodeLost(RunError):
    """A process or node was lost through no fault of the run; retried at once, not counted."""

    failure_class = FailureClass.NODE_LOST
    retryable = True
    who_acts = WhoActs.NOBODY


class DriverLost(NodeLost):
    """The driver's JVM or its SparkContext was lost, and with it the work of all tables."""
