"""The border where failures of py4j, Spark and Iceberg become errors of the project.

A block that calls into the JVM runs inside `translate_source_errors`. `translate_error` takes the
first meaning that fits:

    an error of ours from a task      itself
    a property with a wrong value     `engine_errors`   BadSpec
    a loss of Spark                   `engine_errors`   NodeLost, OutOfMemory, DiskFull, DriverLost
    a job that was cancelled          `engine_errors`   NoProgress
    a class or setting that is missing                  CatalogInvalid
    an expression that fails on a row `row_errors`      FilterInvalid, FileUnreadable
    a damaged file                    `file_errors`     FileUnreadable, DataFileMissing
    the name of a class               `_MEANINGS`       Unauthorized, SourceUnavailable, ...
    none of these                                       Bug

The order matters: a lost executor may surface as a missing file, and a refused login as a failed
connection.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkException

import icdc_api.errors
from icdc_api.errors import (
    Bug,
    CatalogInvalid,
    DataFileMissing,
    DriverLost,
    IcdcError,
    SourceUnavailable,
    TableNotFound,
    Unauthorized,
)
from icdc_api.job.proxies import read_proxies
from icdc_spark.iceberg.jvm import engine_errors, file_errors, row_errors
from icdc_spark.iceberg.jvm.error_signs import find_error_line, read_signs

FOREIGN_ERRORS = (Py4JError, PySparkException, ConnectionError, EOFError)
"""What Spark and Iceberg raise in Python; the last two once the JVM no longer answers."""

_STATUS_DENIED = re.compile(
    r"Status Code: (?:401|403)\b|Access Denied|AccessDenied"
    r"|The security token included in the request is (?:invalid|expired)"
)
_EXPIRED = re.compile(r"The provided token has expired")
"""S3's words for credentials that the catalog gave with the table and that were used too long."""
_UNTRUSTED = re.compile(r"PKIX path building failed|curlCode: 60\b")
"""The words of Java, and of pyarrow's client of S3, for a certificate of an unknown authority."""
_CLASSES_BY_TEXT = (
    (_STATUS_DENIED, "AccessDeniedException"),
    (_EXPIRED, "ExpiredToken"),
    (_UNTRUSTED, "UntrustedCertificate"),
)
"""Classes that stand for several meanings: which one it was is in their text."""
_MISSING_CLASS = re.compile(
    # A class that is there but cannot be initialised has a sentence here, not a path with slashes.
    r"ClassNotFoundException: (?:Class )?(?P<name>[\w.$]+)"
    r"|NoClassDefFoundError: (?P<path>[\w$]+(?:/[\w$]+)+)"
)
_OURS = re.compile(rf"^{re.escape(icdc_api.errors.__name__)}\.(\w+): (.+)$", re.MULTILINE)
"""How a traceback from a task of ours ends, one that asks OpenSearch for example."""
_OTHER_IMAGE = "an image with the jar that has it (spec.spark.image); see docs/catalogs.md"

# The first entry that matches wins: a refused login can surface as a failed connection too.
_MEANINGS: tuple[tuple[frozenset[str], type[IcdcError], str], ...] = (
    (
        # Nothing of it passes, and a Secret is corrected unseen, as credentials are.
        frozenset({"UntrustedCertificate"}),
        Unauthorized,
        "the TLS certificate of the catalog, or of the store of the table's files, is not trusted; "
        "catalog.tls.caFrom names a Secret with the authority that signed it (key ca.crt)",
    ),
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
        # The next run loads the table again, which comes with new ones.
        frozenset({"ExpiredToken"}),
        SourceUnavailable,
        "the credentials of the table's files have expired; the next run gets new ones from the "
        "catalog",
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
        "a file of the snapshot is missing",
    ),
    (
        # A name is another person's matter than a closed port.
        frozenset({"UnknownHostException"}),
        SourceUnavailable,
        "the name of a host of the catalog or of the table's files cannot be resolved",
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
        # The application commits tags only; other writers commit to a busy table all the time.
        frozenset({"CommitFailedException", "CommitStateUnknownException"}),
        SourceUnavailable,
        "other writers committed to the table while its tag was set",
    ),
    (
        frozenset({"RuntimeMetaException", "NessieReferenceNotFoundException"}),
        CatalogInvalid,
        "the catalog cannot be used with these catalog.properties",
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
"""How Iceberg refuses properties. Elsewhere they are bugs of ours."""


@contextmanager
def translate_source_errors(table: str) -> Iterator[None]:
    """Raise what Spark, py4j and Iceberg raise inside the block as an error of the project.

    `table` is the name that the message begins with.
    """
    try:
        yield
    except FOREIGN_ERRORS as error:
        raise translate_error(table, error) from error


@contextmanager
def translate_catalog_errors(table: str) -> Iterator[None]:
    """Like `translate_source_errors`, for a block that creates a catalog.

    What Iceberg refuses there is an error in the catalog's properties: CatalogInvalid.
    """
    try:
        yield
    except FOREIGN_ERRORS as error:
        translated = translate_error(table, error)
        signs = read_signs(error)
        if isinstance(translated, Bug) and signs.classes & _REFUSALS:
            translated = CatalogInvalid(
                f"{table}: Iceberg cannot create a catalog from catalog.properties ({signs.detail})"
            )
        raise translated from error


@contextmanager
def translate_analysis_errors(table: str, kind: type[IcdcError], sql: str) -> Iterator[None]:
    """Like `translate_source_errors`, where only the SQL that is shown as `sql` can be at fault."""
    try:
        yield
    except AnalysisException as error:
        raise kind(f"{sql} cannot be evaluated: {find_error_line(str(error))}") from error
    except FOREIGN_ERRORS as error:
        raise translate_error(table, error) from error


def translate_error(table: str, error: Exception) -> IcdcError:
    """Return the error of the project that stands for a foreign one."""
    classes, detail, text = read_signs(error)
    ours = _OURS.search(text)
    if ours:
        kind: type[IcdcError] = getattr(icdc_api.errors, ours[1], Bug)
        return kind(ours[2])
    setting = engine_errors.find_wrong_setting(text)
    if setting is not None:
        return setting
    # Before the files: a lost executor fails reads, which then look like a damaged file.
    loss = engine_errors.find_meaning(classes, text)
    if loss:
        error_class, message = loss
        return error_class(f"{table}: {message} ({detail})")
    missing = _find_missing(text)
    if missing:
        return CatalogInvalid(f"{table}: {missing}")
    classes = classes | {name for words, name in _CLASSES_BY_TEXT if words.search(text)}
    # Without `detail`: it quotes the row, or its partition.
    row = row_errors.find_meaning(text) or file_errors.find_misplaced_deletes(text)
    if row:
        error_class, message = row
        return error_class(f"{table}: {message}")
    cause = file_errors.name_file(detail, text)
    file = file_errors.find_meaning(classes, text)
    if file:
        error_class, message = file
        return error_class(f"{table}: {message} ({cause})")
    for names, error_class, message in _MEANINGS:
        if names & classes:
            return error_class(f"{table}: {message}{_suspect_proxy(error_class)} ({cause})")
    # After the texts: the last answer of a JVM may say why it ended.
    if has_jvm_ended(error):
        return DriverLost(f"{table}: the JVM of the driver has ended ({detail})")
    # The text of an unexpected error may quote a row.
    return Bug(f"{table}: {row_errors.withhold_values(detail, text)}")


def _suspect_proxy(kind: type[IcdcError]) -> str:
    """Return the doubt whether a proxy refused, as the end of a sentence; empty without one."""
    # Iceberg takes its answer to CONNECT for that of the catalog.
    if kind is Unauthorized and read_proxies(os.environ):
        return "; or the proxy refuses the way there (HTTPS_PROXY, NO_PROXY)"
    return ""


def has_jvm_ended(error: BaseException | None) -> bool:
    """Return whether py4j got no answer, as opposed to an answer that is an error."""
    if isinstance(error, Py4JNetworkError | ConnectionError | EOFError):
        return True
    # What py4j makes of an answer that never came; any other error of its own has a trace.
    return type(error) is Py4JError and "Trace:" not in str(error)


def _find_missing(text: str) -> str:
    """Return a message on what catalog.properties need and the image or its pods do not have.

    Empty if nothing is missing.
    """
    # NoClassDefFoundError names a class by a path with slashes.
    missing = _MISSING_CLASS.search(text)
    if missing:
        name = missing["name"] or missing["path"].replace("/", ".")
        return (
            f"Spark's image is missing the class {name}, which catalog.properties ask for: correct "
            f"type, catalog-impl, io-impl or warehouse, or use {_OTHER_IMAGE}"
        )
    if "No suitable driver found" in text:
        # The text goes on with the address, which may hold a password: it is not quoted.
        return (
            "Spark's image is missing a JDBC driver for the uri in catalog.properties: correct the "
            f"uri, or use {_OTHER_IMAGE}"
        )
    if "Unable to load region" in text:
        return (
            "catalog.properties name no region: set client.region, or AWS_REGION in the pods of "
            "driver and executors"
        )
    return ""
