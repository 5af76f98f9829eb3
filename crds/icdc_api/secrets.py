"""Reads Secrets in the shape that Kubernetes mounts them: one directory each, one file per key.

The only module that reads credentials. It never puts a value into a message.
"""

from pathlib import Path

from icdc_api.catalog import Catalog
from icdc_api.errors import BadSpec, Unauthorized

MAX_SECRET_BYTES = 1 << 20


def read_secret(secrets_dir: Path | None, name: str) -> dict[str, str]:
    """Key to value of one Secret, a final newline cut off.

    Raises BadSpec where no directory of Secrets is known, and Unauthorized, naming Secret and
    path, where the Secret cannot be read.
    """
    if secrets_dir is None:
        raise BadSpec(
            f"the pipeline names the Secret {name!r}, but no directory of Secrets is given; "
            f"use --secrets-dir DIR with the files DIR/{name}/<key>"
        )
    directory = secrets_dir / name
    try:
        # A mounted Secret also holds `..data` and its like, which are no keys.
        files = sorted(
            each for each in directory.iterdir() if each.is_file() and each.name[:2] != ".."
        )
        return {each.name: _value(each, name) for each in files}
    except OSError as error:
        raise Unauthorized(
            f"the Secret {name!r} cannot be read at {error.filename or directory}: {error.strerror}"
        ) from error


def _value(path: Path, name: str) -> str:
    if path.stat().st_size > MAX_SECRET_BYTES:
        raise Unauthorized(f"the Secret {name!r} is larger than 1 MiB at {path}")
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise Unauthorized(f"the Secret {name!r} holds no UTF-8 text at {path}") from error


def resolved_catalog_properties(catalog: Catalog, secrets_dir: Path | None) -> dict[str, str]:
    """The properties to hand to Iceberg: those of the spec, then each Secret's over them."""
    result = dict(catalog.properties)
    for source in catalog.properties_from:
        result.update(read_secret(secrets_dir, source.secret_ref.name))
    return result
