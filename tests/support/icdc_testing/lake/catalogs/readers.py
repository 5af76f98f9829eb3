"""Catalogs opened in this process as their readers open them, but for the confinement."""

from collections.abc import Mapping

from icdc_operator.cluster.heads.catalog_properties import translate
from icdc_operator.cluster.heads.reader import catalog_reading
from icdc_operator.cluster.heads.reader.catalog_reading import OpenCatalog
from icdc_operator.cluster.heads.reader.limits import proxies
from icdc_operator.cluster.heads.reader.limits.addresses import Addresses, AddressGuard
from icdc_operator.cluster.heads.settings import ReaderSettings

ON_LOOPBACK = ReaderSettings(allow_hosts=("127.0.0.1", "localhost"), local_files=True)
"""What tests widen: their catalogs and files are those of this host."""


def open_catalog(
    properties: Mapping[str, str], name: str = "lake", *, settings: ReaderSettings = ON_LOOPBACK
) -> OpenCatalog:
    """Return the catalog of these properties of Iceberg's Java library."""
    guard = AddressGuard(Addresses(settings))
    proxies.install(guard)
    return catalog_reading.open_catalog(translate(name, properties), settings, guard)
