"""Metadata files that are too long, are none, or are not for the operator."""

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from icdc_api.errors import SourceUnavailable
from icdc_operator.cluster.heads.catalog_properties import OutOfSight
from icdc_operator.cluster.heads.reader import metadata_files
from icdc_operator.cluster.heads.reader.foreign_errors import map_errors
from icdc_operator.cluster.heads.reader.metadata_files import MAX_BYTES, read
from icdc_operator.cluster.heads.settings import ReaderSettings
from icdc_testing.lake.catalogs import rest_catalog
from icdc_testing.lake.catalogs.readers import ON_LOOPBACK
from icdc_testing.lake.catalogs.rest_catalog import RestCatalog

pytestmark = pytest.mark.unit

METADATA = {"format-version": 2, "current-snapshot-id": 7}
KEYS = {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.region": "r"}


@pytest.fixture
def store() -> Iterator[RestCatalog]:
    with rest_catalog.serve() as served:
        yield served


@pytest.mark.parametrize("form", ["file://{}", "file:{}", "{}"])
@pytest.mark.parametrize("name", ["m.metadata.json", "a%20b?c#d.metadata.json"])
def test_a_file_is_read_at_the_very_name_that_iceberg_wrote(
    tmp_path: Path, form: str, name: str
) -> None:
    file = tmp_path / name
    file.write_bytes(b"content")
    assert read({}, form.format(file), ON_LOOPBACK) == b"content"


def test_what_has_no_end_is_read_to_no_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").write_bytes(b" " * (MAX_BYTES + 1))
    bomb = tmp_path / "x.gz.metadata.json"
    bomb.write_bytes(gzip.compress(b" " * (4 * MAX_BYTES), 1))
    broken = tmp_path / "z.gz.metadata.json"
    broken.write_bytes(b"no gzip")
    cut = tmp_path / "y.gz.metadata.json"
    cut.write_bytes(gzip.compress(b" " * 1000)[:-4])
    for path in ("/dev/zero", tmp_path / "pipe", tmp_path / "long", bomb, broken, cut, tmp_path):
        with pytest.raises(SourceUnavailable), map_errors("shop.orders"):
            read({}, f"file://{path}", ON_LOOPBACK)


def test_pieces_of_a_compressed_file_stay_small(tmp_path: Path) -> None:
    bomb = gzip.compress(b" " * MAX_BYTES, 9)
    pieces = [len(chunk) for chunk in metadata_files._decompress(iter([bomb]))]
    assert sum(pieces) == MAX_BYTES
    assert max(pieces) <= 2**16


@pytest.mark.parametrize("location", [7, None, {"a": "b"}, ["s3://x"]])
def test_a_location_that_is_no_text_is_unreadable(location: object) -> None:
    with pytest.raises(ValueError, match="not text"):
        read({}, location, ON_LOOPBACK)


@pytest.mark.parametrize(
    ("location", "given", "words"),
    [
        ("file:///etc/passwd", {}, "localFiles"),
        ("/etc/passwd", {}, "localFiles"),
        ("etc/passwd", {}, "only at"),
        ("s3://lake/m.json", {}, "useCloudRole"),
        ("s3://lake/m.json", {"client.role-arn": "arn:x"}, "useCloudRole"),
        ("s3://lake/m.json", {"s3.access-key-id": ""}, "useCloudRole"),
        ("gs://lake/m.json", {}, "gcs.oauth2.token"),
    ],
)
def test_what_takes_files_or_a_role_of_the_operator_is_left_to_runs(
    location: str, given: dict[str, str], words: str
) -> None:
    with pytest.raises(OutOfSight, match=words):
        read(given, location, ReaderSettings())


def test_a_file_in_s3_is_read_with_the_keys_of_the_pipeline(store: RestCatalog) -> None:
    store.answers["/lake/a%20b/m.metadata.json"] = (200, METADATA)
    endpoint = {"s3.endpoint": f"http://127.0.0.1:{store.port}"}
    style = {"s3.force-virtual-addressing": "false"}
    location = "s3a://lake/a b/m.metadata.json"
    metadata = read({**KEYS, **endpoint, **style}, location, ReaderSettings())
    assert json.loads(metadata) == METADATA
    asked, headers = store.requests[-1]
    assert asked == "/lake/a%20b/m.metadata.json"
    assert "Credential=a/" in headers["Authorization"]
    anonymous = {"s3.anonymous": "true", "s3.region": "r", **endpoint, **style}
    assert json.loads(read(anonymous, location, ReaderSettings())) == METADATA
    assert "Authorization" not in store.requests[-1][1]


def test_a_file_in_the_store_of_google_is_read_with_the_token(store: RestCatalog) -> None:
    path = "/storage/v1/b/lake/o/a%2Fm.metadata.json"
    store.answers[path] = (200, METADATA)
    given = {"gcs.oauth2.token": "t", "gcs.service.host": f"http://127.0.0.1:{store.port}"}
    assert json.loads(read(given, "gs://lake/a/m.metadata.json", ReaderSettings())) == METADATA
    asked, headers = store.requests[-1]
    assert asked == f"{path}?alt=media"
    assert headers["Authorization"] == "Bearer t"
    store.redirects[path] = "/elsewhere"
    with pytest.raises(ValueError, match="307"):
        read(given, "gs://lake/a/m.metadata.json", ReaderSettings())


def test_a_server_that_is_not_reached_is_named_without_what_its_address_holds() -> None:
    request = requests.Request("GET", "http://u:hidden@lake:8181/v1/config").prepare()
    with (
        pytest.raises(SourceUnavailable, match=r"^shop\.orders cannot be read at lake: "),
        map_errors("shop.orders"),
    ):
        raise requests.ConnectionError(request=request)
