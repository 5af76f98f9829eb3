"""Show what the bytes of an image are for: the files of its archive, summed up by part.

    opt/spark/jars/hadoop-client-api-3.4.2.jar    20 MB    Hadoop's client, for file systems
    opt/venv/…/site-packages/pandas/…             39 MB    pandas
    usr/share/doc/tzdata/copyright                 2 KB    Debian: programs, Perl, …

What a user gains: before an image is pulled onto every node, its size has reasons. A file belongs
to the first part whose expression fits its path, so what no other part claims is the last one's.
A part of more than 50 MB is divided, unless one file alone is as large. Reads layers, runs nothing.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import oci_archive

_PYTHON = r"opt/venv/lib/python[\d.]+/site-packages/"
_JARS = r"opt/spark/jars/"

PARTS = {
    "archive of classes, one file": r"opt/spark/classes\.jsa",
    "Java: its classes": r"usr/lib/jvm/.*/lib/modules",
    "Java: virtual machine and native libraries": r"usr/lib/jvm/",
    "Iceberg's bundle for AWS, one file": _JARS + "iceberg-aws-bundle",
    "Iceberg for Spark": _JARS + "iceberg-",
    "drivers of JDBC": _JARS + "(sqlite-jdbc|postgresql|mysql|mariadb)",
    "Spark's jars: Spark's SQL": _JARS + "spark-(catalyst|sql|hive)",
    "Spark's jars: Spark's core and the rest of it": _JARS + "spark-",
    "Spark's jars: Hadoop's client, its dependencies": _JARS + "hadoop-client-runtime",
    "Spark's jars: Hadoop's client, for file systems": _JARS + "hadoop-",
    "Spark's jars: Hive's client and Derby, for catalogs of Hive": (
        _JARS + "(hive|derby|datanucleus|jdo|javax.jdo|libthrift|HikariCP|bonecp|antlr-|ST4|stax)"
    ),
    "Spark's jars: Scala": _JARS + "(scala|json4s|jline)",
    "Spark's jars: icu4j, compression": _JARS + "(icu4j|zstd|snappy|lz4|aircompressor|compress-)",
    "Spark's jars: Parquet, ORC, Arrow, Avro": _JARS + "(parquet|orc-|arrow-|avro|flatbuffers)",
    "Spark's jars: client of Kubernetes, by which executors start": (
        _JARS + "(kubernetes|okhttp|okio|vertx|zjsonpatch|snakeyaml)"
    ),
    "Spark's jars: Commons, Guava, Curator, ZooKeeper": (
        _JARS + "(commons-|guava|failureaccess|curator|zookeeper|httpc)"
    ),
    "Spark's jars: Netty, web server, Jackson, logs, others": _JARS,
    "numpy: itself": _PYTHON + "numpy/",
    "numpy: OpenBLAS": _PYTHON + r"numpy\.libs/",
    "pandas": _PYTHON + "(pandas/|pytz/)",
    "Arrow: its core": _PYTHON + r"pyarrow/libarrow\.so",
    "Arrow: functions, S3": _PYTHON
    + r"pyarrow/libarrow_(compute|acero|dataset|substrait|flight)|"
    + _PYTHON
    + "pyarrow/.*s3",
    "Arrow: Parquet, binding to Python, others": _PYTHON + "pyarrow/",
    "pyspark": _PYTHON + "(pyspark|py4j)",
    "pyiceberg, and what it needs for files and lines of text": (
        _PYTHON + "(pyiceberg|pygments|rich|fsspec|zstandard|strictyaml|pyroaring|pyparsing|click"
        "|mmh3|cachetools|tenacity|markdown_it|mdurl|ruamel|dateutil)"
    ),
    "SQLAlchemy, driver of PostgreSQL": _PYTHON + "(sqlalchemy|greenlet|psycopg2)",
    "catalogs of AWS and Hive, in Python": _PYTHON
    + "(hive_metastore|thrift|boto|s3transfer|jmespath)",
    "pydantic, HTTP": (
        _PYTHON + "(pydantic|aiohttp|yarl|multidict|frozenlist|propcache|aiosignal|urllib3|requests"
        "|charset_normalizer|idna|certifi|annotated_types|typing)"
    ),
    "client of Kubernetes, and kopf": (
        _PYTHON
        + "(kubernetes|kopf|oauthlib|requests_oauthlib|websocket|yaml|google|durationpy|iso8601)"
    ),
    "client of OpenSearch": _PYTHON + "(opensearch|events)",
    "this project, with its bills of materials": (
        rf"{_PYTHON}icdc_|opt/icdc|usr/share/doc/iceberg-cdc-operator/"
    ),
    "other Python packages": "opt/venv/",
    "Python's own modules": r"usr/(local/)?(bin|lib)/(lib)?python3",
    "Debian: charsets": r"usr/lib/[^/]+/gconv/",
    "Debian: libraries": r"(usr/)?lib(64)?/",
    "Debian: programs, time zones, certificates, licences": "",
}
"""An expression for each part, from the root of the image; the first that fits counts."""


def measure_parts(archive: Path) -> Mapping[str, int]:
    """Return the bytes of each part of an image, in the order of `PARTS`; TarError of no archive.

    What a later layer replaces is in no part.
    """
    parts = dict.fromkeys(PARTS, 0)
    for path, size in oci_archive.measure_files(archive).items():
        parts[_find_part(path)] += size
    return {part: size for part, size in parts.items() if size}


def _find_part(path: str) -> str:
    # There is always one: the last expression fits every path.
    return next(part for part, pattern in PARTS.items() if re.match(pattern, path))
