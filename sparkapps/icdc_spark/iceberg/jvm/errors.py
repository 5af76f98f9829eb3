"""The border where failures of py4j, Spark and Iceberg become errors of the project.

A failure in an executor reaches the driver partly as text, so both the Java causes and the class
names inside messages are looked at.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from icdc_api import redaction
from icdc_api.errors import (
    Bug,
    CatalogInvalid,
    DataFileMissing,
    DriverLost,
    FilterInvalid,
    IcdcError,
    SourceUnavailable,
    TableNotFound,
    Unauthorized,
)
from icdc_spark.iceberg.jvm import engine_errors, file_errors, row_errors

FOREIGN_ERRORS = (Py4JError, PySparkException, ConnectionError, EOFError)
"""What Spark and Iceberg raise in Python; the last two when the JVM does not answer any more."""

_CLASS_NAME = re.compile(r"\b(?:[a-z_][\w]*\.)+[A-Z][\w$]*(?:Exception|Error)\b")
_PYTHON_ERROR = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception): .*$", re.MULTILINE)
_STATUS_DENIED = re.compile(
    r"Status Code: (?:401|403)\b|Access Denied|AccessDenied"
    r"|The security token included in the request is (?:invalid|expired)"
)
_MISSING_CLASS = re.compile(
    # A class that is there and cannot be initialised is told of in words, without slashes.
    r"ClassNotFoundException: (?:Class )?(?P<name>[\w.$]+)"
    r"|NoClassDefFoundError: (?P<path>[\w$]+(?:/[\w$]+)+)"
)
_ANOTHER_IMAGE = "an image with the jar that has it (spec.spark.image); see docs/catalogs.md"

# The first line that matches wins: a refused login can surface as a failed connection too.
_MEANINGS: tuple[tuple[frozenset[str], type[IcdcError], str], ...] = (
    (
        frozenset(
            {
                "ForbiddenException",
                "NotAuthorizedException",
                "AccessDeniedException",
                "PermissionError",
                "NessieForbiddenException",
                "NessieNotAuthorizedException",
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
                "AwsServiceException",
                "TTransportException",
                "NessieServiceException",
            }
        ),
        SourceUnavailable,
        "the catalog or the table's files cannot be reached",
    ),
    (
        # Only tags are committed here, and others commit to a busy table again and again.
        frozenset({"CommitFailedException", "CommitStateUnknownException"}),
        SourceUnavailable,
        "the table was changed by others while its tag was set",
    ),
    (
        frozenset({"RuntimeMetaException", "NessieReferenceNotFoundException"}),
        CatalogInvalid,
        "the catalog cannot be used as catalog.properties say",
    ),
)

_REFUSALS = frozenset(
    {
        "IllegalArgumentException",
        "NullPointerException",  # of Guava's checks: a property that is not there
        "UnsupportedOperationException",
        "ValidationException",
    }
)


@contextmanager
def source_errors(table: str) -> Iterator[None]:
    """Turns what Spark, py4j and Iceberg raise inside the block into an error of the project."""
    try:
        yield
    except FOREIGN_ERRORS as error:
        raise translated(table, error) from error


@contextmanager
def catalog_errors(table: str) -> Iterator[None]:
    """Like `source_errors`, for a block that makes a catalog: what Iceberg refuses there is wrong
    in its properties."""
    try:
        yield
    except FOREIGN_ERRORS as error:
        known = translated(table, error)
        if isinstance(known, Bug) and _signs(error).classes & _REFUSALS:
            detail = _signs(error).detail
            known = CatalogInvalid(
                f"{table}: Iceberg makes no catalog of catalog.properties ({detail})"
            )
        raise known from error


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
    classes, detail, text = _signs(error)
    lost = engine_errors.meaning(classes, text)
    if lost:
        kind, words = lost
        return kind(f"{table}: {words} ({detail})")
    lacking = _lacking(text)
    if lacking:
        return CatalogInvalid(f"{table}: {lacking}")
    if _STATUS_DENIED.search(text):
        classes = classes | {"AccessDeniedException"}
    of_a_row = row_errors.meaning(text)
    if of_a_row:
        kind, words = of_a_row
        return kind(f"{table}: {words}")
    told = file_errors.told(detail, text)
    special = file_errors.meaning(classes, text)
    if special:
        broken, words = special
        return broken(f"{table}: {words} ({told})")
    for names, kind, words in _MEANINGS:
        if names & classes:
            return kind(f"{table}: {words} ({told})")
    if _jvm_is_gone(error):
        return DriverLost(f"{table}: the JVM of the driver is gone ({detail})")
    # Of what nobody foresaw the text may quote a row.
    return Bug(f"{table}: {row_errors.withhold_values(detail, text)}")


def _jvm_is_gone(error: Exception) -> bool:
    if isinstance(error, Py4JNetworkError | ConnectionError | EOFError):
        return True
    # What py4j makes of an answer that never came; any other error of its own has a trace.
    return type(error) is Py4JError and "Trace:" not in str(error)


def _lacking(text: str) -> str:
    """What a catalog's properties ask for and Spark or its pods do not have; empty for nothing."""
    missing = _MISSING_CLASS.search(text)
    if missing:
        name = missing["name"] or missing["path"].replace("/", ".")
        return (
            f"Spark lacks the class {name}, which catalog.properties ask for: mend type, "
            f"catalog-impl, io-impl or warehouse, or use {_ANOTHER_IMAGE}"
        )
    if "No suitable driver found" in text:
        # The address that follows may hold a password.
        return (
            "Spark lacks a JDBC driver for the uri in catalog.properties: mend it, or use "
            f"{_ANOTHER_IMAGE}"
        )
    if "Unable to load region" in text:
        return (
            "catalog.properties name no region: set client.region, or AWS_REGION in the pods of "
            "driver and executors"
        )
    return ""


class _Signs(NamedTuple):
    """What an error shows of itself."""

    classes: frozenset[str]
    """Simple names of all Java classes that it speaks of."""
    detail: str
    """The deepest cause in words."""
    text: str
    """All causes, whole."""


def _signs(error: Exception) -> _Signs:
    names: set[str] = set()
    details = [f"{type(error).__name__}: {_first_line(str(error))}"]
    texts = [str(error)]
    cause = _java_cause(error)
    for _ in range(32):
        if cause is None:
            break
        texts.append(str(cause.toString()))
        details.append(_first_line(texts[-1]))
        names.update(_lineage(cause))
        names.update(_class_names(str(cause.getMessage() or "")))
        cause = cause.getCause()
    if len(details) == 1:
        names.update(_class_names(str(error)))
    return _Signs(frozenset(names), details[-1], "\n".join(texts))


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
    line = raised[-1] if raised else text.strip().split("\n", 1)[0]
    return redaction.hide_partition_values(line)[:400]
