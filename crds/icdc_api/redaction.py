"""Take values of rows out of text that others wrote, before it becomes a message.

Messages reach the status, Events, logs and terminals, where no row content belongs. What is known
to be safe is better named by its own words; this is for what must be quoted. Pure.
"""

import re

HIDDEN = "…"

SECRET_NAMES = (
    r"(?i)^spark[.]sql[.]catalog[.]|secret|passw(or)?d|token|access[.-]?key|account[.-]?key"
    r"|api[.-]?key|private[.-]?key|encryption[.-]?key|[.]sas[.]|connection[.-]string"
    r"|authorization|credential|cookie|assertion|sse[.]key"
)
"""Names of properties whose values are no one's business: Spark's own expression, and what it
misses. In the regular expressions that Java and Python have in common."""

# Iceberg and Hive put the values of partition columns into the folders of data files.
_PARTITION = re.compile(r"(?<=/)([^/=\s]+)=[^/\n]*(?=/)")
# An apostrophe between letters ends a word and opens no quotation: can't convert 'ann'.
_QUOTED = re.compile(r"(?<!\w)'[^\n]*?'(?!\w)|(?<!\w)'[^\n]*|\"[^\"\n]*\"?")


def hide_partition_values(text: str) -> str:
    """Return `text` in which no path shows the value of a partition column.

        s3://lake/orders/data/region=EU/day=2024-03-15/00000-0-5f1c.parquet
        s3://lake/orders/data/region=…/day=…/00000-0-5f1c.parquet

    The name of the file stays: writers of Iceberg put a UUID into it, so it is enough to find it
    in the metadata table `files`.
    """
    return _PARTITION.sub(rf"\1={HIDDEN}", text)


def hide_quoted(text: str) -> str:
    """Return `text` without what stands in quotes, where errors of Python repeat their values."""
    # The quotes stay, and the rest of the sentence with them: they show that a value was there.
    return _QUOTED.sub(lambda quoted: f"{quoted[0][0]}{HIDDEN}{quoted[0][0]}", text)
