"""Turns whatever a table or a run meets into errors of the project, and tells people of them.

An error that no class stands for is a `Bug`. Its text may quote a row, so it is logged and reported
without it. It must not know what follows from an error.
"""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from icdc_api import redaction
from icdc_api.errors import Bug, IcdcError
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.replication.context import TableContext

LOG = logging.getLogger(__name__)


def build_bug(error: BaseException) -> Bug:
    """Return the failure that stands for an unforeseen error."""
    # Its text may quote a row.
    return Bug(f"{type(error).__name__}: {redaction.hide_quoted(str(error))}")


@contextmanager
def translate_errors(table: str) -> Iterator[None]:
    """Turn every exception inside the block into an error of the project."""
    try:
        with translate_source_errors(table):
            yield
    except IcdcError:
        raise
    except Exception as error:
        log_unforeseen(f"{table}: unforeseen", error)
        raise build_bug(error) from error


def log_unforeseen(words: str, error: Exception) -> None:
    """Log an error with its traceback, for whoever mends the program."""
    # Without the errors before it: those of Spark quote the row on which a task failed.
    trace = "".join(traceback.format_exception(error, chain=False))
    LOG.error("%s\n%s", words, trace)


@contextmanager
def outlive_errors(watch: str) -> Iterator[None]:
    """Log every exception inside the block, which is one poll of a watch, and go on.

    A watch that ended by one would be missed by nobody, and what hangs later would never be told.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the root of a thread
        log_unforeseen(f"{watch}: unforeseen", error)


def report_failure(context: TableContext, error: IcdcError) -> None:
    """Write into log and report why the table does not advance."""
    LOG.warning("%s: %s: %s", context.table.name, type(error).__name__, error)
    context.reporter.fail(error)
