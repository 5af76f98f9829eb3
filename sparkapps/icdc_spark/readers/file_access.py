"""Opens files of a table in a Spark worker, by pyiceberg and pyarrow.

pyarrow's client of S3 takes a file with certificates in place of the usual ones, and pyiceberg has
no property for it. It must not know what is in the files.
"""

import functools
import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from pyarrow.fs import FileSystem
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO

from icdc_api import authorities


def open_file_io(properties: Mapping[str, str], location: str) -> FileIO:
    """Return what opens the files at `location`, by the properties of the table's FileIO."""
    own = dict(properties)
    certificates = own.pop(authorities.PROPERTY, None)
    if certificates is None:
        return load_file_io(own, location)
    return _TrustingFileIO(own, certificates)


class _TrustingFileIO(PyArrowFileIO):
    """Trusts further certificates (PEM) for S3, beside the usual ones."""

    def __init__(self, properties: dict[str, str], certificates: str) -> None:
        super().__init__(properties)
        self._certificates = certificates

    def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
        usual = super()._initialize_s3_fs(netloc)
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
