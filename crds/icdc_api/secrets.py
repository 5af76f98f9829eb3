"""Reads Secrets in the shape that Kubernetes mounts them: one directory each, one file per key.

The only module that reads credentials. It never puts a value into a message.
"""

from contextlib import suppress
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


def load_catalog_properties(catalog: Catalog, secrets_dir: Path | None) -> dict[str, str]:
    """The properties to hand to Iceberg: those of the spec, then each Secret's over them."""
    result = dict(catalog.properties)
    for source in catalog.properties_from:
        result.update(read_secret(secrets_dir, source.secret_ref.name))
    return result


def stamp_secrets(secrets_dir: Path | None) -> frozenset[tuple[str, int, int, int]]:
    """What the file system says of every key of every Secret: another stamp, other contents.

    Reads no file. A Secret that is mounted changes under a process when somebody rotates it.
    """
    found = set()
    for path in secrets_dir.glob("*/*") if secrets_dir else ():
        with suppress(OSError):  # Replaced meanwhile: the next look finds what took its place.
            status = path.stat()
            found.add((str(path), status.st_ino, status.st_mtime_ns, status.st_size))
    return frozenset(found)
