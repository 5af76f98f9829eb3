"""Texts of Iceberg about a damaged file, and of broken connections that look alike."""

import pytest
from pyspark.errors import PySparkException

from icdc_api.errors import DataFileMissing, FileUnreadable, TableError
from icdc_spark.iceberg.jvm.file_errors import find_meaning, name_file
from icdc_spark.iceberg.jvm.source_errors import translate_error
from icdc_spark.process.failures import build_bug

LIST = "s3://lake/t/metadata/snap-1.avro"
AROUND = f"org.apache.iceberg.exceptions.RuntimeIOException: Failed to open file: {LIST}\n"


@pytest.mark.parametrize(
    ("classes", "text", "expected"),
    [
        ({"IllegalArgumentException"}, "Cannot read unsupported version 9", FileUnreadable),
        ({"NoFieldIdsError"}, "NoFieldIdsError: s3://lake/t/data/a.parquet", FileUnreadable),
        ({"IllegalArgumentException"}, "Can not promote TIMESTAMP type", FileUnreadable),
        (
            {"UnsupportedOperationException"},
            "ORC cannot read default value for field d (string): x",
            FileUnreadable,
        ),
        (
            {"IllegalArgumentException"},
            "java.lang.IllegalArgumentException: Missing required field: r",
            FileUnreadable,
        ),
        (
            {"ParquetCryptoRuntimeException"},
            "Trying to read file with encrypted footer. No keys available",
            FileUnreadable,
        ),
        (
            {"IllegalArgumentException"},
            "Retrieving encryption keys requires a StandardEncryptionManager",
            FileUnreadable,
        ),
        (
            {"ValidationException"},
            "Metadata file for version 5 is missing under s3://lake/t/metadata",
            DataFileMissing,
        ),
        (
            {"RuntimeIOException", "JsonEOFException", "JsonProcessingException"},
            "Failed to read file: s3://lake/t/metadata/v5.metadata.json",
            FileUnreadable,
        ),
        # A REST catalog behind a proxy that answers with a page.
        ({"RESTException", "JsonProcessingException"}, "failed to parse response body", None),
        ({"RuntimeIOException", "EOFException"}, f"{AROUND}java.io.EOFException", FileUnreadable),
        ({"EOFException"}, "java.io.EOFException", None),
        (
            {"RuntimeIOException", "EOFException"},
            f"{AROUND}java.io.EOFException: End of File Exception between local host is: a; "
            "destination host is: b",
            None,
        ),
        ({"AvroRuntimeException"}, "Malformed data. Length is negative: -7", FileUnreadable),
        ({"AvroRuntimeException", "IOException"}, "java.io.IOException: reset", None),
        ({"AvroRuntimeException", "IOException"}, "IOException: Invalid sync!", FileUnreadable),
        ({"ParquetDecodingException"}, "CRC checksum verification failed", FileUnreadable),
        ({"AvroRuntimeException", "NotFoundException"}, "no such key", None),
        ({"ParquetDecodingException", "SocketException"}, "could not read page", None),
        ({"RuntimeIOException", "IOException"}, f"{AROUND}java.io.IOException: reset", None),
    ],
)
def test_a_broken_file_is_told_from_a_broken_connection(
    classes: set[str], text: str, expected: type[TableError] | None
) -> None:
    meaning = find_meaning(classes, text)
    assert (meaning[0] if meaning else None) is expected


@pytest.mark.parametrize(
    ("detail", "text", "expected"),
    [
        ("java.io.EOFException", AROUND, f"{LIST}: java.io.EOFException"),
        (f"File {LIST} does not exist", AROUND, f"File {LIST} does not exist"),
        ("reset", "Failed to open Parquet file: /a b/c.parquet\nreset", "/a b/c.parquet: reset"),
        (
            "java.io.EOFException",
            "Failed to open file: /o/data/region=EU/f.parquet\njava.io.EOFException",
            "/o/data/region=…/f.parquet: java.io.EOFException",
        ),
        ("reset", "Failed to connect to host: a/b", "reset"),
    ],
)
def test_the_file_is_named_where_only_another_cause_names_it(
    detail: str, text: str, expected: str
) -> None:
    assert name_file(detail, text) == expected


def test_the_values_that_an_unforeseen_error_quotes_are_left_to_the_log() -> None:
    assert translate_error(
        "shop.orders", PySparkException("no sense in 'ann@example.org'")
    ).message == ("shop.orders: PySparkException: no sense in '…'")
    assert build_bug(KeyError("ann@example.org")).message == "KeyError: '…'"
