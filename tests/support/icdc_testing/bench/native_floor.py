"""What changed between two sets of Parquet files, by a native engine in this one process.

The floor for a diff: Arrow reads the files whole into memory and joins them, without Spark, without
budgets, and without anything that makes a reader of Iceberg correct (deletes, schemas of long ago,
duplicate keys). Knows nothing of Iceberg but where files lie.
"""

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq


def build_changed_lines(
    added: Sequence[str], removed: Sequence[str], *, columns: Sequence[str], key: str
) -> Iterator[bytes]:
    """Yield a line for each row of `added` files that no `removed` file holds, and for each lost
    key."""
    new, old = _read_table(added, columns), _read_table(removed, columns)
    for row in new.join(old, keys=list(columns), join_type="left anti").to_pylist():
        yield json.dumps(row, default=str).encode()
    for row in (
        old.select([key]).join(new.select([key]), keys=key, join_type="left anti").to_pylist()
    ):
        yield json.dumps({"delete": row}, default=str).encode()


def _read_table(locations: Sequence[str], columns: Sequence[str]) -> pa.Table:
    paths = [location.removeprefix("file:") for location in locations]
    return pa.concat_tables([pq.ParquetFile(path).read(list(columns)) for path in paths])
