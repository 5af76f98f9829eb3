"""Read Secrets as Kubernetes mounts them: one directory for each, with one file for each key.

The only module that reads credentials. It never puts a value into a message.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from icdc_api import authorities
from icdc_api.errors import BadSpec, Unauthorized
from icdc_api.spec.catalog import Catalog

MAX_SECRET_BYTES = 1 << 20
"""Greatest size of one value: Kubernetes allows 1 MiB for a whole Secret."""


def read_secret(secrets_dir: Path | None, name: str) -> dict[str, str]:
    """Return the values of a Secret by key, without a final newline.

    BadSpec where no directory of Secrets is given. Unauthorized, with Secret and path, where the
    Secret cannot be read.
    """
    if secrets_dir is None:
        raise BadSpec(
            f"the pipeline names the Secret {name!r}, but no directory of Secrets is given; "
            f"use --secrets-dir DIR with the files DIR/{name}/<key>"
        )
    directory = secrets_dir / name
    try:
        # The kubelet adds `..data` and the like beside the keys, to swap all files at once.
        files = sorted(
            path for path in directory.iterdir() if path.is_file() and path.name[:2] != ".."
        )
        return {path.name: _read_value(path, name) for path in files}
    except OSError as error:
        raise Unauthorized(
            f"the Secret {name!r} cannot be read at {error.filename or directory}: {error.strerror}"
        ) from error


def _read_value(path: Path, name: str) -> str:
    if path.stat().st_size > MAX_SECRET_BYTES:
        raise Unauthorized(f"the Secret {name!r} is larger than 1 MiB at {path}")
    try:
        # The newline of an editor or of `echo` is no part of a password.
        return path.read_text(encoding="utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise Unauthorized(f"the Secret {name!r} holds no UTF-8 text at {path}") from error


def load_catalog_properties(catalog: Catalog, secrets_dir: Path | None) -> dict[str, str]:
    """Return the properties for Iceberg: those of the spec, overridden by those of each Secret.

    With the certificates of `catalog.tls.caFrom`, if there are any, as `authorities.PROPERTY`.
    """
    result = dict(catalog.properties)
    for source in catalog.properties_from:
        result.update(read_secret(secrets_dir, source.secret_ref.name))
    authority = catalog.authority_secret
    if authority is not None:
        values = read_secret(secrets_dir, authority)
        result[authorities.PROPERTY] = pick_authority(values, authority)
    return result


def has_credentials(keys: Collection[str]) -> bool:
    """Return whether a Secret with these keys opens OpenSearch: by AWS, or by name and password."""
    return "awsRegion" in keys or ("username" in keys and "password" in keys)


def pick_authority(values: Mapping[str, str], secret: str) -> str:
    """Return the certificates in the Secret that `catalog.tls.caFrom` names, as PEM.

    Unauthorized if they are missing or are not certificates. It is tried again, since nobody
    reports when a Secret changes.
    """
    where = f"Secret {secret!r} (catalog.tls.caFrom)"
    text = values.get(authorities.KEY)
    if not text:
        raise Unauthorized(
            f"{where} has no key {authorities.KEY!r}; put certificates there, as PEM"
        )
    try:
        return "\n".join(authorities.list_certificates(text))
    except ValueError:
        raise Unauthorized(
            f"{where}: the value of {authorities.KEY!r} is not a certificate in PEM; put text "
            "there that begins with -----BEGIN CERTIFICATE-----"
        ) from None


def stamp_secrets(secrets_dir: Path | None) -> frozenset[tuple[str, int, int, int]]:
    """Return path, inode, time and size of every key of every Secret, which change with its value.

    Reads no file. The kubelet updates a mounted Secret under a running process when it is rotated.
    """
    files = set()
    for path in secrets_dir.glob("*/*") if secrets_dir else ():
        with suppress(OSError):  # replaced meanwhile: the next stamp has its successor
            status = path.stat()
            files.add((str(path), status.st_ino, status.st_mtime_ns, status.st_size))
    return frozenset(files)


def describe_missing_keys(where: str, keys: frozenset[str]) -> str:
    """Return the keys that a Secret lacks for the field `where`; empty if it has what is needed.

    spec.sink.opensearch.credentialsFrom   username          key password
    spec.sink.opensearch.credentialsFrom   awsRegion         nothing is missing
    spec.catalog.propertiesFrom[0]         nothing           key at all
    """
    if where.endswith(".credentialsFrom"):
        # Either is enough: a user with a password, or a region, with which requests are signed.
        if has_credentials(keys):
            return ""
        missing = [key for key in ("username", "password") if key not in keys]
        return f"key {' or '.join(missing)}" + ("" if keys else ", nor awsRegion")
    if where.endswith(".caFrom"):
        return "" if authorities.KEY in keys else f"key {authorities.KEY}"
    return "" if keys else "key at all"
