"""Opens files of a table in a Spark worker, by pyiceberg and pyarrow.

Three things differ from pyiceberg's own way. pyarrow's client of S3 takes a file with certificates
in place of the usual ones, and pyiceberg has no property for it. It reads no variable that names a
proxy. And Iceberg encodes nothing in a location, where pyiceberg takes `?` and `#` for the end of a
path. It must not know what is in the files.
"""

import functools
import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from pyarrow.fs import FileSystem
from pyiceberg.io import AWS_REGION, S3_PROXY_URI, FileIO, load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

from icdc_api import authorities
from icdc_api.job.proxies import read_proxies

_ANY_REGION = "s3.cross-region-access-enabled"
_HIDDEN = {ord("?"): "\ue03f", ord("#"): "\ue023"}
"""Characters without a meaning, for those at which pyiceberg would end a path."""
_SHOWN = {ord(hidden): chr(shown) for shown, hidden in _HIDDEN.items()}


def open_file_io(properties: Mapping[str, str], location: str) -> FileIO:
    """Return what opens the files at `location`, by the properties of the table's FileIO."""
    own = dict(properties)
    certificates = own.pop(authorities.PROPERTY, None)
    region = _read_region()
    proxy = read_proxies(os.environ).find_for_store({**region, **own})
    if proxy is not None:
        own.setdefault(S3_PROXY_URI, proxy)
        # pyarrow would ask the store for its region, and not through the proxy. Only where clients
        # of the JVM follow a bucket to another region is that worth a try.
        if own.get(_ANY_REGION, "").lower() != "true":
            own = {**region, **own}
    usual = load_file_io(own, location)
    # Schemes that pyarrow has no client for are opened by another library.
    if certificates is None and type(usual) is not PyArrowFileIO:
        return usual
    return _TableFileIO(own, certificates)


def _read_region() -> dict[str, str]:
    """Return the region of the environment, which clients of the JVM take too, as a property."""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return {AWS_REGION: region} if region else {}


class _TableFileIO(PyArrowFileIO):
    """Takes locations as they are, and trusts further certificates (PEM) for S3."""

    def __init__(self, properties: dict[str, str], certificates: str | None) -> None:
        super().__init__(properties)
        self._certificates = certificates

    @staticmethod
    def parse_location(location: str, properties: Properties = EMPTY_DICT) -> tuple[str, str, str]:
        """Return scheme, host and path of a location."""
        scheme, host, path = PyArrowFileIO.parse_location(location.translate(_HIDDEN), properties)
        return scheme, host, path.translate(_SHOWN)

    def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
        usual = super()._initialize_s3_fs(netloc)
        if self._certificates is None:
            return usual
        # What a copy of it is made from (pickle): all its options, of which one is added.
        build, (options,) = usual.__reduce__()
        return build({**options, "tls_ca_file_path": _write_bundle(self._certificates)})


@functools.cache
def _write_bundle(certificates: str) -> str:
    """Return the path of a file with the usual certificates and further ones.

    In memory: there may be no folder to write to. It ends with this process.
    """
    usual = ssl.get_default_verify_paths().cafile
    texts = [Path(usual).read_text(encoding="utf-8")] if usual else []
    descriptor = os.memfd_create("authorities")
    # Left open: the path below leads to the descriptor, and nothing else holds the file.
    with os.fdopen(descriptor, "w", encoding="utf-8", closefd=False) as bundle:
        bundle.write("\n".join([*texts, certificates, ""]))
    return f"/proc/self/fd/{descriptor}"
