"""Stop pyiceberg at the metadata location of a table: Hive, Glue and DynamoDB.

Part 3 of `reader`: read. These catalogs hold the location alone; the file is read by
`metadata_files`, and only if the location is new.
"""

import functools
from typing import Any

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.dynamodb import DynamoDbCatalog
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.catalog.hive import HiveCatalog

from icdc_operator.cluster.heads.reader import branches, metadata_files
from icdc_operator.cluster.heads.reader.branches import Heads
from icdc_operator.cluster.heads.reader.named import MetadataPointer
from icdc_operator.cluster.heads.settings import ReaderSettings


class _Pointing(MetastoreCatalog):
    """End each load of a table by `MetadataPointer`, before pyiceberg opens a file."""

    settings = ReaderSettings()
    last_pointer: str | None = None
    """The pointer that was read last, as `catalog_reading` sets it; only REST catalogs use it."""

    def _load_file_io(self, properties: object = None, location: str | None = None) -> Any:
        self._stop_at(location)

    def _stop_at(self, location: object) -> None:
        raise MetadataPointer(str(location), functools.partial(self._read, location))

    def _read(self, location: object) -> Heads:
        return branches.parse_file(metadata_files.read(self.properties, location, self.settings))


class Hive(_Pointing, HiveCatalog):
    """A metastore by Thrift."""


class Glue(_Pointing, GlueCatalog):
    """The catalog of AWS."""


class DynamoDb(_Pointing, DynamoDbCatalog):
    """The catalog in DynamoDB. pyiceberg would look for its table and create a missing one."""

    def _ensure_catalog_table_exists_or_create(self) -> None:
        pass

    def _convert_dynamo_table_item_to_iceberg_table(self, dynamo_table_item: dict[str, Any]) -> Any:
        # Unlike the others, DynamoDB's catalog opens the file without `_load_file_io`.
        location = dynamo_table_item.get("p.metadata_location", {}).get("S")
        if location is not None:
            self._stop_at(location)
        return super()._convert_dynamo_table_item_to_iceberg_table(dynamo_table_item)
