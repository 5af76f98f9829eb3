"""Positions are read from a delete file as they were written, or not at all."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema

from icdc_spark.iceberg.scan.file_tasks import DeleteFile, FileTask
from icdc_spark.readers.deletions import Decoded, Deletions

pytestmark = pytest.mark.unit

DATA = "a.parquet"
POSITION = 0x1122334455


@pytest.fixture
def delete_file(tmp_path: Path) -> Path:
    """A file with one position, whose bytes stand in it as they are."""
    path = tmp_path / "deletes.parquet"
    rows = pa.table({"file_path": [DATA], "pos": pa.array([POSITION], pa.int64())})
    pq.write_table(
        rows,
        path,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    )
    return path


def read_positions(path: Path) -> Deletions:
    """Return the deleted rows of the data file by this delete file."""
    delete = DeleteFile(location=str(path), file_format="parquet", equality_ids=())
    task = FileTask(
        location=DATA, file_format="parquet", bytes=1, deletes=(delete,), constants={}, part=None
    )
    return Deletions(PyArrowFileIO(), task, Schema(), read_no_rows)


def read_no_rows(delete: DeleteFile, schema: Schema) -> Iterator[Decoded]:
    raise AssertionError("a delete file of positions has no keys")


def test_a_position_is_that_of_the_file(delete_file: Path) -> None:
    assert list(read_positions(delete_file)._positions) == [POSITION]


def test_a_flipped_bit_deletes_no_other_row(delete_file: Path) -> None:
    content = delete_file.read_bytes()
    written = np.int64(POSITION).tobytes()
    assert content.count(written) == 1
    at = content.index(written)
    delete_file.write_bytes(content[:at] + bytes([written[0] ^ 1]) + content[at + 1 :])
    with pytest.raises(OSError, match="CRC checksum verification failed"):
        read_positions(delete_file)
