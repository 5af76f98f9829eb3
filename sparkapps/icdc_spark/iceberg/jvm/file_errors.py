"""Recognise a damaged or unreadable file by the text of an error of Iceberg or of a file format.

A connection that breaks while a file is read gives much the same text, and may work the next time.
A damaged file stops its table until a person acts, so in doubt it is not the file. Part of the
border in `errors`: it knows texts and class names, no exceptions.

Example: what `EOFException` means depends on the rest of the text.

    text                                                          meaning
    Failed to open file: s3://lake/t/a.avro / EOFException        FileUnreadable: ends too early
    the same / EOFException: End of File Exception between ...    none: a connection of Hadoop ended
    EOFException                                                  none: no file is named
"""

import re
from collections.abc import Set

from icdc_api import redaction
from icdc_api.errors import DataFileMissing, FileUnreadable, TableError

_NAMED_FILE = re.compile(r"Failed to [^:\n]*\bfile\b[^:\n]*: (?P<file>\S*/.*)$", re.MULTILINE)
"""An outer message of Iceberg, which names the file where its cause does not."""
_DAMAGED = frozenset(
    {
        "ChecksumException",
        "FileFormatException",  # of ORC
        "InvalidAvroMagicException",
        "ParquetDecodingException",
    }
)
_NOT_THE_CONTENT = frozenset(
    {
        "AccessDeniedException",
        "AwsServiceException",
        "ConnectException",
        "ConnectionClosedException",
        "FileNotFoundException",
        "ForbiddenException",
        "NotAuthorizedException",
        "NotFoundException",
        "S3Exception",
        "SSLException",
        "SdkClientException",
        "SdkException",
        "SocketException",
        "SocketTimeoutException",
    }
)
"""Errors of access, of the network or of a missing file: they say nothing of the content."""
_MISPLACED_DELETES = re.compile(
    r"Mismatched partition \w+ \(.*\) "
    r"for delete file (?P<deletes>\S+) and data file (?P<file>\S+): "
)
"""Iceberg's words; the partitions in them are values of rows."""
_LACKS_COLUMN = (
    "a file lacks a column that the table requires and that has no default value: make the column "
    "optional, or rewrite the file"
)
_ENCRYPTED = (
    "a file is encrypted, and Iceberg has no key to it: encrypted tables are not supported; write "
    "the table without encryption.key-id, or leave it out of the pipeline"
)
_UNREADABLE = (
    (
        "Cannot read unsupported version",
        "the table's metadata has a newer format version than this Iceberg can read; use an "
        "image with a newer Iceberg (spec.spark.image)",
    ),
    (
        "Can not promote",
        "a column of an ORC file has a type that Iceberg cannot convert to the table's type: "
        "rewrite the file",
    ),
    (
        "ORC cannot read default value",
        "Iceberg cannot read a column that was added with a default value from ORC files without "
        "it: drop the column, or leave it out by naming the other columns in `columns`",
    ),
    ("No keys available", _ENCRYPTED),
    # Of a list of manifests.
    ("encryption keys requires a StandardEncryptionManager", _ENCRYPTED),
    ("key metadata encryption requires a StandardEncryptionManager", _ENCRYPTED),
    ("Missing required field", _LACKS_COLUMN),
    # The same of an ORC file.
    ("is required and was not found", _LACKS_COLUMN),
)
"""Words of Iceberg about what it does not read, and what they mean."""
_BROKEN_OFF = "End of File Exception between"
"""How Hadoop's RPC client reports that a connection, not a file, ended."""


def name_file(detail: str, text: str) -> str:
    """Return the cause, preceded by the file if only another message names it."""
    match = _NAMED_FILE.search(text)
    # As in `detail`, whose partition values are hidden already.
    file = "" if match is None else redaction.hide_partition_values(match["file"])
    return detail if file in detail else f"{file}: {detail}"


def find_misplaced_deletes(text: str) -> tuple[type[TableError], str] | None:
    """Return error and message for deletes in another partition than their file; None if not so.

    By the specification they do not apply, and some readers apply them: no two would agree.
    """
    match = _MISPLACED_DELETES.search(text)
    if match is None:
        return None
    deletes, file = map(redaction.hide_partition_values, match.group("deletes", "file"))
    return FileUnreadable, (
        f"the delete file {deletes} is for rows of {file}, which is in another partition: the "
        "metadata is corrupt. Rewrite the data file or remove the delete file, then raise "
        "spec.resync.nonce"
    )


def find_meaning(classes: Set[str], text: str) -> tuple[type[TableError], str] | None:
    """Return the error that stands for what is wrong with a file, and its message.

    None if nothing shows that it is the file. `classes` are the simple names of the classes of the
    error, `text` all of its texts.
    """
    for words, message in _UNREADABLE:
        if words in text:
            return FileUnreadable, message
    if "NoFieldIdsError" in classes:
        return FileUnreadable, (
            "the columns of a file have no field ids, and the table has no name mapping to "
            "identify them: set its property schema.name-mapping.default, or rewrite the file"
        )
    if "Metadata file for version" in text and "is missing under" in text:
        return DataFileMissing, "the table's metadata file is missing"
    # Before the signs of damage: a connection that breaks in mid-file leaves these as well.
    if classes & _NOT_THE_CONTENT:
        return None
    # Avro also wraps the error of a failed read: then the block itself may be in order.
    malformed = "AvroRuntimeException" in classes and "IOException" not in classes
    if classes & _DAMAGED or malformed or "Invalid sync!" in text:
        return FileUnreadable, "a file of the table is damaged"
    if not _NAMED_FILE.search(text):
        # An answer of a REST catalog, or a connection: either may work the next time.
        return None
    if "JsonProcessingException" in classes:
        return FileUnreadable, "the table's metadata file is damaged"
    if "EOFException" in classes and _BROKEN_OFF not in text:
        return FileUnreadable, "a file of the table ends too early"
    return None
