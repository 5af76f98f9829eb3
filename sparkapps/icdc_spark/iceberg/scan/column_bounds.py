"""Estimate the range of column values from the bounds in manifests, without opening data files.

Bounds are only as good as the writer of the file: good enough to choose a strategy, not to leave
out a row.
"""

from collections.abc import Sequence
from typing import Any

from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.scan.manifest_entries import load_files_with_bounds
from icdc_spark.iceberg.scan.manifests import FILE, read_manifests
from icdc_spark.iceberg.scan.planning import FileGroup, collect_data_files
from icdc_spark.iceberg.table.tables import IcebergTable

_SAMPLE = 8
"""Files whose bounds are read; the others are taken to be like them. Each costs a dozen calls."""


def estimate_key_range(
    table: IcebergTable, snapshot_id: int, group: FileGroup, field_ids: Sequence[int]
) -> int | None:
    """Estimate how many values of a key the files of `group` span, in `snapshot_id`.

    The fields must be whole numbers. Per file that is the product of (upper - lower + 1) over
    `field_ids`. The sum over a sample is scaled to the group by the number of rows:

        file a: 50 rows, id 1..100, shop 1..3     100 x 3 = 300
        file b: 50 rows, id 901..1000, shop 1..1  100 x 1 = 100
        group of 1,000 rows, sample a and b       (300 + 100) x 1,000 / 100 = 4,000

    Reads one manifest. None if the group is empty or a file of the sample has no bounds.
    """
    if not group.files:
        return None
    with translate_source_errors(table.name):
        bridge = table.bridge
        files = collect_data_files(bridge, group.tasks)
        manifest_paths = bridge.read_texts(bridge.map(files, FILE, "manifestLocation"))
        locations = bridge.read_texts(bridge.map(files, FILE, "location"))
        first = manifest_paths[0]
        pairs = zip(locations, manifest_paths, strict=True)
        # Planned files carry no bounds, so a manifest has to be read for them; one is enough.
        in_first = [location for location, path in pairs if path == first]
        sample = in_first[:: -(-len(in_first) // _SAMPLE)]
        manifests = read_manifests(table, snapshot_id).data.with_paths({first})
        sampled = load_files_with_bounds(table, manifests, sample) if manifests else []
        ranges = [_multiply_ranges(table, file, field_ids) for file in sampled]
        records = sum(int(file.recordCount()) for file in sampled)
    bounded = [size for size in ranges if size is not None]
    if len(bounded) < len(ranges) or not records:
        return None
    return sum(bounded) * group.records // records


def _multiply_ranges(table: IcebergTable, file: Any, field_ids: Sequence[int]) -> int | None:
    """Return the product of (upper - lower + 1) over the fields; None if a bound is missing."""
    product = 1
    for field_id in field_ids:
        lower = _read_bound(table, file.lowerBounds(), field_id)
        upper = _read_bound(table, file.upperBounds(), field_id)
        if lower is None or upper is None:
            return None
        product *= upper - lower + 1
    return product


def _read_bound(table: IcebergTable, bounds: Any, field_id: int) -> int | None:
    """Return a bound out of a Java map by field id; null for a file without statistics."""
    value = bounds.get(field_id) if bounds is not None else None
    if value is None:
        return None
    # Bounds of int, long and date columns are all little-endian integers, which Iceberg reads as
    # long whatever their width: a file keeps the width that its column had when it was written.
    long_type = table.bridge.get_statics("org.apache.iceberg.types.Types$LongType").get()
    conversions = table.bridge.get_statics("org.apache.iceberg.types.Conversions")
    return int(conversions.fromByteBuffer(long_type, value))
