"""What the tests' programs and clusters leave on a disk is what later runs read again."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from icdc_testing.kube import binaries
from icdc_testing.real_cluster.host import layout, teardown
from icdc_testing.real_cluster.host.layout import ClusterPaths

pytestmark = pytest.mark.unit

# Fetches into GOMODCACHE, compiles into GOCACHE and writes the program that `-o` names, as Go does.
GO = """#!/bin/sh
[ "$1" = build ] || exit 0
mkdir -p "$GOCACHE" "$GOMODCACHE/module"
echo compiled > "$GOCACHE/package"
for word in "$@"; do
  if [ "$previous" = -o ]; then mkdir -p "$(dirname "$word")" && echo program > "$word"; fi
  previous="$word"
done
"""


@pytest.mark.parametrize(("user", "needed"), [(0, binaries.NAMES), (1000, binaries.WITHOUT_NODES)])
def test_what_go_fetched_and_compiled_stays_until_every_program_of_a_host_is_built(
    user: int, needed: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(GO)
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ICDC_CACHE_DIR", str(tmp_path / "cache"))
    compiled, fetched = (tmp_path / "cache" / name for name in ("go-build", "go-modules"))
    binaries.ensure_programs()
    assert (compiled / "package").is_file()
    assert (fetched / "module").is_dir()
    built = binaries.ensure_programs(needed)
    assert all(path.is_file() for path in built.values())
    assert not compiled.exists()
    assert not fetched.exists()


def test_images_of_a_cluster_that_is_down_can_be_removed(tmp_path: Path) -> None:
    where = ClusterPaths(tmp_path)
    for node in layout.NODES:
        (where.locate(node).images / "layers").mkdir(parents=True)
    where.lock.touch()
    teardown.remove_images(where)
    assert [path.name for path in tmp_path.iterdir()] == [where.lock.name]
    teardown.remove_images(where)
