"""What is kept outside the checkout is named, measured, and removed only when nothing uses it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import caches

pytestmark = pytest.mark.unit


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("ICDC_CACHE_DIR", str(folder))
    (folder / "jars" / "a").mkdir(parents=True)
    (folder / "jars" / "a" / "spark.jar").write_bytes(bytes(3_000_000))
    return folder


def test_each_folder_is_shown_with_its_size_and_what_it_is_for(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert caches.main([]) == 0
    shown = capsys.readouterr().out
    assert "       3 MB  jars: jars of Spark" in shown
    assert "       3 MB in all" in shown
    assert cache.is_dir()


def test_a_file_of_two_names_counts_once(cache: Path) -> None:
    (cache / "jars" / "b.jar").hardlink_to(cache / "jars" / "a" / "spark.jar")
    assert caches.count_bytes(cache) < 4_000_000


def test_a_file_that_goes_while_it_is_counted_is_no_failure(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = os.walk

    def remove_meanwhile(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        for parent, folders, names in walk(folder):
            (cache / "jars" / "a" / "gone.jar").unlink(missing_ok=True)
            yield parent, folders, names

    (cache / "jars" / "a" / "gone.jar").write_bytes(bytes(9_000_000))
    monkeypatch.setattr(os, "walk", remove_meanwhile)
    assert 2_900_000 < caches.count_bytes(cache) < 4_000_000


def test_everything_is_removed_when_asked_for_and_it_is_said_what_that_freed(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (cache / "go-build").mkdir()
    (cache / "go-build" / "a.o").write_bytes(bytes(2_000_000))
    assert caches.main(["--remove"]) == 0
    assert not cache.exists()
    jars, programs, total = capsys.readouterr().out.splitlines()
    assert "3 MB  jars: " in jars
    assert "2 MB  go-build: " in programs
    assert total == f"       5 MB freed, all that was in {cache}"


def test_nothing_is_removed_while_something_is_mounted_there(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mounts = [f"overlay {cache}/cluster/run/a overlay rw 0 0", "proc /proc proc rw 0 0"]
    assert caches.remove(cache, mounts, 0) == 1
    assert cache.is_dir()
    said = capsys.readouterr().out
    assert "`make cluster-down`" in said
    assert "freed" not in said


@pytest.mark.parametrize(
    ("written", "point"),
    [
        (r"/a\040cache/run", "/a cache/run"),
        (r"/a\040cache/with\011tab", "/a cache/with\ttab"),
        (r"/a\040cache/back\134040slash", r"/a cache/back\040slash"),
    ],
)
def test_a_mount_point_is_known_though_the_kernel_escapes_it(written: str, point: str) -> None:
    mounts = [f"overlay {written} overlay rw 0 0", "overlay /a overlay rw 0 0"]
    assert caches.find_mounts(Path("/a cache"), mounts) == [point]


def test_a_mount_point_is_known_though_the_cache_is_named_by_a_link(
    cache: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path, target_is_directory=True)
    mounts = [f"overlay {cache}/cluster/run/a overlay rw 0 0"]
    assert caches.remove(link / "cache", mounts, 0) == 1
    assert cache.is_dir()


def test_a_cache_that_is_a_link_is_removed_where_it_leads_to(cache: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(cache, target_is_directory=True)
    assert caches.remove(link, [], 0) == 0
    assert not cache.exists()


def test_no_cache_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICDC_CACHE_DIR", str(tmp_path / "none"))
    assert caches.main(["--remove"]) == 0
