"""Read metadata files of tables: bounded in bytes, and only at the schemes named here.

Part 3 of `reader`: read. By boto3 and requests, so that every connection passes
`addresses.AddressGuard`. pyiceberg would use pyarrow, whose C++ clients pass by it and take 90 MB.

    s3://lake/t/m.json       S3 by keys of the pipeline, anonymous, or the cloud role if allowed
    gs://lake/t/m.json       Google's store by gcs.oauth2.token
    file:/x/m.json, /x/…     this host, only with heads.localFiles
    hdfs:, abfs:, relative   OutOfSight: only a run reads it
"""

import os
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
import requests
from botocore import UNSIGNED
from botocore.config import Config

from icdc_operator.cluster.heads.catalog_properties import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    OutOfSight,
)
from icdc_operator.cluster.heads.settings import ReaderSettings

MAX_BYTES = 64 * 2**20
"""Most bytes of one metadata file, or of one answer of a catalog, after decompression."""

_CHUNK_BYTES = 64 * 2**10
_GOOGLE = "https://storage.googleapis.com"
_TIMES = (CONNECT_SECONDS, ANSWER_SECONDS)


def read(properties: Mapping[str, str], location: object, settings: ReaderSettings) -> bytes:
    """Return the content of a metadata file.

    Raises OutOfSight where only a run reads it, ValueError where it is no metadata file or too
    long, and the errors of the client of its store.
    """
    if not isinstance(location, str):
        raise ValueError("the location of the metadata is not text")
    scheme, _, rest = (f"file:{location}" if location[:1] == "/" else location).partition(":")
    opener = _OPENERS.get(scheme)
    if opener is None:
        raise OutOfSight("the operator reads metadata files only at s3:, gs: and file: addresses")
    # Iceberg encodes nothing in a location: `?` and `%` are part of names.
    host, _, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
    chunks = opener(properties, host, path, settings)
    return join_bounded(_decompress(chunks) if location.endswith(".gz.metadata.json") else chunks)


def join_bounded(chunks: Iterator[bytes]) -> bytes:
    """Return the chunks as one; raises ValueError beyond MAX_BYTES, before more is read."""
    whole = bytearray()
    for chunk in chunks:
        whole += chunk
        if len(whole) > MAX_BYTES:
            raise ValueError(f"longer than {MAX_BYTES} bytes")
    return bytes(whole)


def _decompress(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress gzip in pieces of at most _CHUNK_BYTES, so that a bomb meets MAX_BYTES early."""
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
    for chunk in chunks:
        left = chunk
        while left:
            yield inflate.decompress(left, _CHUNK_BYTES)
            left = inflate.unconsumed_tail
    yield inflate.flush()
    if not inflate.eof:
        raise ValueError("the compressed file ends too early")


def _read_s3(
    properties: Mapping[str, str], bucket: str, key: str, settings: ReaderSettings
) -> Iterator[bytes]:
    anonymous = properties.get("s3.anonymous", "").lower() == "true"
    keys = _find_s3_keys(properties)
    if not anonymous and not keys:
        settings.require_cloud_role("S3")
    virtual = properties.get("s3.force-virtual-addressing")
    style = {"true": "virtual", "false": "path"}.get((virtual or "").lower(), "auto")
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=ANSWER_SECONDS,
        # Few: the poll itself is repeated, and all of it has one time limit.
        retries={"max_attempts": 2},
        s3={"addressing_style": style},
        signature_version=UNSIGNED if anonymous else None,
    )
    region = properties.get("s3.region") or properties.get("client.region")
    session = boto3.Session(**_assume_role(properties, keys, region), region_name=region)
    client = session.client("s3", endpoint_url=properties.get("s3.endpoint"), config=config)
    body = client.get_object(Bucket=bucket, Key=key)["Body"]
    yield from body.iter_chunks(_CHUNK_BYTES)


def _find_s3_keys(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the keys for files (s3.*), else those for all of AWS (client.*), by boto3's names."""
    names = {
        "aws_access_key_id": "access-key-id",
        "aws_secret_access_key": "secret-access-key",
        "aws_session_token": "session-token",
    }
    for group in ("s3", "client"):
        if f"{group}.access-key-id" in properties:
            keys = {ours: properties.get(f"{group}.{theirs}") for ours, theirs in names.items()}
            return {name: value for name, value in keys.items() if value}
    return {}


def _assume_role(
    properties: Mapping[str, str], keys: dict[str, str], region: str | None
) -> dict[str, str]:
    """Return the keys of the role that the properties ask to assume, else `keys`."""
    role = properties.get("s3.role-arn") or properties.get("client.role-arn")
    if not role:
        return keys
    name = properties.get("s3.role-session-name") or properties.get("client.role-session-name")
    tokens: Any = boto3.Session(**keys, region_name=region).client("sts")
    answer = tokens.assume_role(RoleArn=role, RoleSessionName=name or "icdc")["Credentials"]
    return {
        "aws_access_key_id": answer["AccessKeyId"],
        "aws_secret_access_key": answer["SecretAccessKey"],
        "aws_session_token": answer["SessionToken"],
    }


def _read_google(
    properties: Mapping[str, str], bucket: str, key: str, _: ReaderSettings
) -> Iterator[bytes]:
    token = properties.get("gcs.oauth2.token")
    if not token:
        raise OutOfSight("the operator reads metadata files at gs: only with a gcs.oauth2.token")
    host = properties.get("gcs.service.host", _GOOGLE).rstrip("/")
    # Google takes the whole name of an object as one part of the path, slashes included.
    url = f"{host}/storage/v1/b/{quote(bucket, safe='')}/o/{quote(key, safe='')}"
    with requests.get(
        url,
        params={"alt": "media"},
        headers={"Authorization": f"Bearer {token}"},
        stream=True,
        timeout=_TIMES,
        allow_redirects=False,
    ) as answer:
        answer.raise_for_status()
        # A redirect is no error to requests, and is not followed: it holds no metadata.
        if answer.status_code != requests.codes.ok:
            raise ValueError(f"the store answers {answer.status_code}")
        yield from answer.iter_content(_CHUNK_BYTES)


def _read_local(
    _: Mapping[str, str], host: str, path: str, settings: ReaderSettings
) -> Iterator[bytes]:
    settings.require_local_files()
    if host not in ("", "localhost"):
        raise ValueError("the metadata file is on another host")
    # O_NONBLOCK: to open a named pipe would otherwise wait for a writer.
    number = os.open(Path("/", path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(number, "rb") as file:
        # A device has no end, and a directory no content.
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise ValueError("no regular file")
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


_Opener = Callable[[Mapping[str, str], str, str, ReaderSettings], Iterator[bytes]]

_OPENERS: dict[str, _Opener] = {
    "s3": _read_s3,
    "s3a": _read_s3,
    "s3n": _read_s3,
    "gs": _read_google,
    "file": _read_local,
}
