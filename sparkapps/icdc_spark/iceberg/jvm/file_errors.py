"""What Iceberg and the file formats say of a broken file, mostly in words only.

A connection that breaks while a file is read says much the same, and may be in order the next time:
where in doubt it is not the file.

Part of the border in `errors`; it knows texts and names of classes, no exceptions.
"""

import re
from collections.abc import Set

from icdc_api import redaction
from icdc_api.errors import DataFileMissing, FileUnreadable, TableError

_NAMED_FILE = re.compile(r"Failed to [^:\n]*\bfile\b[^:\n]*: (?P<file>\S*/.*)$", re.MULTILINE)
"""The file at hand, which stands around a cause that does not name it."""
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
"""What a read also fails with, whatever the file holds."""
_BROKEN_OFF = "End of File Exception between"
"""How Hadoop tells of a connection, not a file, that ended."""


def told(detail: str, text: str) -> str:
    """The cause in words, and before it the file that only another cause names."""
    named = _NAMED_FILE.search(text)
    file = "" if named is None else redaction.hide_partition_values(named["file"])
    return detail if file in detail else f"{file}: {detail}"


def meaning(classes: Set[str], text: str) -> tuple[type[TableError], str] | None:
    """The error that stands for what is wrong with a file, and its words."""
    if "Cannot read unsupported version" in text:
        return FileUnreadable, (
            "the table's metadata is of a format version that is newer than this Iceberg reads; "
            "use an image with a newer one (spec.spark.image)"
        )
    if "NoFieldIdsError" in classes:
        return FileUnreadable, (
            "the columns of a file have no field ids, and the table no name mapping to know them "
            "by: set its property schema.name-mapping.default, or rewrite the file"
        )
    if "Can not promote" in text:
        return FileUnreadable, (
            "a column of an ORC file is of a type that Iceberg does not read as the table's: "
            "rewrite the file"
        )
    if "Metadata file for version" in text and "is missing under" in text:
        return DataFileMissing, "the table's metadata file is gone"
    if classes & _NOT_THE_CONTENT:
        return None
    # Avro wraps what reading fails with, too: then the block itself was in order.
    malformed = "AvroRuntimeException" in classes and "IOException" not in classes
    if classes & _DAMAGED or malformed or "Invalid sync!" in text:
        return FileUnreadable, "a file of the table is damaged"
    if not _NAMED_FILE.search(text):
        # An answer of a REST catalog, or a connection: either may be in order the next time.
        return None
    if "JsonProcessingException" in classes:
        return FileUnreadable, "the table's metadata file is damaged"
    if "EOFException" in classes and _BROKEN_OFF not in text:
        return FileUnreadable, "a file of the table ends too early"
    return None
