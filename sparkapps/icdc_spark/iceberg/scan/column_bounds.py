"""What data files say of the values of a column without being opened.

Such bounds are as good as who wrote the file: good enough to choose a way, not to leave out a row.
"""

from collections.abc import Sequence
from typing import Any

from icdc_spark.iceberg.jvm.errors import source_errors
from icdc_spark.iceberg.scan.manifests import FILE, files_with_bounds, manifests_of
from icdc_spark.iceberg.scan.planning import FileGroup, data_files
from icdc_spark.iceberg.table.tables import IcebergTable

_SAMPLE = 8
"""Files that are looked at; the others are taken to be like them."""


def spread(
    table: IcebergTable, snapshot_id: int, group: FileGroup, fields: Sequence[int]
) -> int | None:
    """About how many values lie between the least and the greatest that fields of whole numbers,
    by their ids, have in a file, for all files of a group together, which are of a snapshot.

    Reads one manifest. None where a file does not say, or only says that it has none.
    """
    if not group.files:
        return None
    with source_errors(table.name):
        bridge = table.bridge
        files = data_files(bridge, group.tasks)
        homes = bridge.texts(bridge.map(files, FILE, "manifestLocation"))
        places = bridge.texts(bridge.map(files, FILE, "location"))
        together = [place for place, home in zip(places, homes, strict=True) if home == homes[0]]
        sample = together[:: -(-len(together) // _SAMPLE)]
        manifests = manifests_of(table, snapshot_id).data.at({homes[0]})
        looked_at = files_with_bounds(table, manifests, sample) if manifests else []
        spreads = [_spread(table, file, fields) for file in looked_at]
        records = sum(int(file.recordCount()) for file in looked_at)
    known = [each for each in spreads if each is not None]
    if len(known) < len(spreads) or not records:
        return None
    return sum(known) * group.records // records


def _spread(table: IcebergTable, file: Any, fields: Sequence[int]) -> int | None:
    product = 1
    for field in fields:
        bounds = (file.lowerBounds(), file.upperBounds())
        least, greatest = (_bound(table, told, field) for told in bounds)
        if least is None or greatest is None:
            return None
        product *= greatest - least + 1
    return product


def _bound(table: IcebergTable, told: Any, field_id: int) -> int | None:
    value = told.get(field_id) if told is not None else None
    if value is None:
        return None
    whole_number = table.bridge.statics("org.apache.iceberg.types.Types$LongType").get()
    conversions = table.bridge.statics("org.apache.iceberg.types.Conversions")
    return int(conversions.fromByteBuffer(whole_number, value))
