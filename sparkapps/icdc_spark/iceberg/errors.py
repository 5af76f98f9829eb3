"""The border where failures of py4j, Spark and Iceberg become errors of the project.

A failure in an executor reaches the driver partly as text, so both the Java causes and the class
names inside messages are looked at.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from icdc_api.errors import (
    Bug,
    DataFileMissing,
    FilterInvalid,
    IcdcError,
    NodeLost,
    SourceUnavailable,
    TableNotFound,
    Unauthorized,
)

FOREIGN_ERRORS = (Py4JError, PySparkException, ConnectionError, EOFError)
"""What Spark and Iceberg raise in Python; the last two when the JVM does not answer any more."""

_CLASS_NAME = re.compile(r"\b(?:[a-z_][\w]*\.)+[A-Z][\w$]*(?:Exception|Error)\b")
_PYTHON_ERROR = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception): .*$", re.MULTILINE)
_STATUS_DENIED = re.compile(r"Status Code: (?:401|403)\b|Access Denied|AccessDenied")

# The first line that matches wins: a refused login can surface as a failed connection too.
_MEANINGS: tuple[tuple[frozenset[str], type[IcdcError], str], ...] = (
    (
        frozenset(
            {
                "ForbiddenException",
                "NotAuthorizedException",
                "AccessDeniedException",
                "PermissionError",
            }
        ),
        Unauthorized,
        "the catalog or the storage refuses the credentials; see catalog.properties and the "
        "Secrets of catalog.propertiesFrom",
    ),
    (
        frozenset(
            {"NoSuchTableException", "NoSuchNamespaceException", "NoSuchIcebergTableException"}
        ),
        TableNotFound,
        "the catalog has no such table",
    ),
    (
        frozenset(
            {
                "NotFoundException",
                "FileNotFoundException",
                "FileNotFoundError",
                "NoSuchKeyException",
            }
        ),
        DataFileMissing,
        "a file that the snapshot refers to is gone",
    ),
    (
        frozenset(
            {
                "ServiceUnavailableException",
                "ServiceFailureException",
                "ConnectException",
                "ConnectTimeoutException",
                "HttpHostConnectException",
                "SocketTimeoutException",
                "SocketException",
                "UnknownHostException",
                "NoHttpResponseException",
                "NoRouteToHostException",
                "SSLException",
                "SdkClientException",
                "UncheckedSQLException",
                "SQLTransientException",
                "SQLNonTransientConnectionException",
                "RuntimeIOException",
                "UncheckedIOException",
                "RESTException",
                "S3Exception",
            }
        ),
        SourceUnavailable,
        "the catalog or the table's files cannot be reached",
    ),
)


@contextmanager
def source_errors(table: str) -> Iterator[None]:
    """Turns what Spark, py4j and Iceberg raise inside the block into an error of the project."""
    try:
        yield
    except FOREIGN_ERRORS as error:
        raise translated(table, error) from error


@contextmanager
def filter_errors(table: str, row_filter: str) -> Iterator[None]:
    """Like `source_errors`, for a block in which only `rowFilter` can fail the analysis."""
    try:
        yield
    except AnalysisException as error:
        raise FilterInvalid(
            f"{table}: rowFilter `{row_filter}` cannot be evaluated: {_first_line(str(error))}"
        ) from error
    except FOREIGN_ERRORS as error:
        raise translated(table, error) from error


def translated(table: str, error: Exception) -> IcdcError:
    """The error of the project that stands for a foreign one."""
    classes, detail = _signs(error)
    if _STATUS_DENIED.search(str(error)):
        classes = classes | {"AccessDeniedException"}
    for names, kind, words in _MEANINGS:
        if names & classes:
            return kind(f"{table}: {words} ({detail})")
    if _jvm_is_gone(error):
        return NodeLost(f"{table}: the JVM of the driver is gone ({detail})")
    return Bug(f"{table}: {detail}")


def _jvm_is_gone(error: Exception) -> bool:
    if isinstance(error, Py4JNetworkError | ConnectionError | EOFError):
        return True
    # What py4j makes of an answer that never came; any other error of its own has a trace.
    return type(error) is Py4JError and "Trace:" not in str(error)


def _signs(error: Exception) -> tuple[frozenset[str], str]:
    """Simple names of all Java classes the error speaks of, and the deepest cause in words."""
    names: set[str] = set()
    details = [f"{type(error).__name__}: {_first_line(str(error))}"]
    cause = _java_cause(error)
    for _ in range(32):
        if cause is None:
            break
        details.append(_first_line(str(cause.toString())))
        names.update(_lineage(cause))
        names.update(_class_names(str(cause.getMessage() or "")))
        cause = cause.getCause()
    if len(details) == 1:
        names.update(_class_names(str(error)))
    return frozenset(names), details[-1]


def _java_cause(error: Exception) -> Any:
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    if isinstance(error, CapturedException):
        return error._origin
    return None


def _lineage(throwable: Any) -> set[str]:
    names: set[str] = set()
    kind = throwable.getClass()
    while kind is not None and str(kind.getName()) != "java.lang.Throwable":
        names.add(str(kind.getSimpleName()))
        kind = kind.getSuperclass()
    return names


def _class_names(text: str) -> set[str]:
    raised = {found.split(":", 1)[0] for found in _PYTHON_ERROR.findall(text)}
    return {re.split(r"[.$]", found)[-1] for found in {*_CLASS_NAME.findall(text), *raised}}


def _first_line(text: str) -> str:
    """The line that says what happened; of a Python traceback that is the last one."""
    raised = _PYTHON_ERROR.findall(text) if "Traceback (most recent call last)" in text else []
    return (raised[-1] if raised else text.strip().split("\n", 1)[0])[:400]
