"""Which entries of its path a Python worker need not look into."""

from pathlib import Path

import pytest

from icdc_spark.process.worker_daemon import without_archives

pytestmark = pytest.mark.unit


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages with pyspark, which has its own archive, and py4j 1.2."""
    site = tmp_path / "site"
    archives = site / "pyspark" / "python" / "lib"
    archives.mkdir(parents=True)
    (site / "pyspark" / "__init__.py").touch()
    for name in ("pyspark.zip", "py4j-1.2-src.zip", "py4j-1.1-src.zip"):
        (archives / name).touch()
    described = site / "py4j-1.2.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: py4j\nVersion: 1.2\n")
    return site


def test_archives_of_what_is_there_as_a_folder_are_left_out(site: Path) -> None:
    lib = f"{site}/pyspark/python/lib"
    path = [f"{lib}/pyspark.zip", f"{lib}/py4j-1.2-src.zip", "/opt/spark-core.jar", str(site)]
    assert without_archives(path) == [str(site)]


@pytest.mark.parametrize(
    "archive",
    [
        "{site}/pyspark/python/lib/py4j-1.1-src.zip",
        "{site}/../other/python/lib/pyspark.zip",
        "{site}/mine.zip",
        "/pyspark.zip",
    ],
    ids=["another version", "of another pyspark", "a user's", "at the root"],
)
def test_every_other_archive_stays(site: Path, archive: str) -> None:
    entry = archive.format(site=site)
    assert without_archives([entry, str(site)]) == [entry, str(site)]


def test_archives_stay_where_there_is_no_folder(site: Path) -> None:
    path = [f"{site}/pyspark/python/lib/pyspark.zip", f"{site}/pyspark/python/lib/py4j-1.2-src.zip"]
    assert without_archives(path) == path
