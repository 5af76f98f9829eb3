"""Prints what the project keeps outside the checkout, how large it is, and what it is for.

With `--remove` it is removed: the next `make setup`, `make test` or `make images` makes it again,
which takes minutes to an hour. Refuses while something is mounted there, such as a test cluster
that is up, since removing would reach into what runs.

What a user gains: some 8 GB that nothing else of the host names, seen and freed by one command.

    with --remove       512 MB  jars: jars of Spark, Iceberg and OpenSearch, by Maven: `make setup`
                        940 MB  programs: Kubernetes programs of the tests, ...
                       1452 MB freed, all that was in /home/a/.cache/icdc
"""

import argparse
import os
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from icdc_cli.embedded import jars

FOLDERS = {
    "jars": "jars of Spark, Iceberg and OpenSearch, by Maven: `make setup`",
    "launchers": "the program that starts embedded OpenSearch nodes: their first start",
    "programs": "Kubernetes programs of the tests, built by Go: `make test-api`",
    "go-build": "what Go compiled for them, until all are built: `make test-api`",
    "go-modules": "modules that they are made of, likewise; then the one whose CRDs tests apply",
    "images": "layers of images, by builder: `make images`",
    "image-archives": "images as OCI archives: `make images` without a folder for them",
    "site": "MkDocs, which builds the pages as a site: `make site`",
    "mypy": "what mypy knows of files that have not changed: `make types`",
    "plugin": "icdc as a plugin of kubectl: its first call",
    "cluster": "images and logs of a cluster that stays: `make cluster-up`",
}
"""Every folder below the cache, and what it spares whom. One that is missing here is removed with
the rest, and stands in no line of the table."""
# The kernel writes what would break its lines (blank, tab, newline, backslash) as three octal
# digits. In one pass: replaced one after the other, "\\134040" would become a blank.
_ESCAPED = re.compile(r"\\([0-7]{3})")


def count_bytes(folder: Path) -> int:
    """Return the bytes that the folder takes on disk; a file of several names counts once.

    Files that go while it counts do not count: builds may be active there. An inode counts once:

        overlay/ab/diff/usr/bin/perl          3.8 MB, inode 7    3.8 MB
        overlay/ab/diff/usr/bin/perl5.36.0    inode 7 again      0
        overlay/ab/diff/etc/mtab              a link             its own few bytes
    """
    seen: set[tuple[int, int]] = set()
    total = 0
    # os.walk and strings, not Path.rglob: the storage of layers holds whole file systems.
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                # Not stat: an absolute link of a layer leads to a file of this host.
                status = os.lstat(os.path.join(parent, name))  # noqa: PTH118 - a million files
            except FileNotFoundError:
                continue
            if (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                # Blocks of 512 bytes by POSIX, whatever the file system's own size is.
                total += status.st_blocks * 512
    return total


def find_mounts(folder: Path, mounts: Iterable[str]) -> list[str]:
    """Return the mount points below the folder, of lines as in /proc/mounts.

    overlay /cache/cluster/rootfs overlay rw,lowerdir=... 0 0     its second word: below /cache
    overlay /my\\040cache/rootfs overlay rw,lowerdir=... 0 0      /my cache/rootfs
    proc /proc proc rw 0 0                                        elsewhere
    """
    points = [_ESCAPED.sub(_unescape, line.split()[1]) for line in mounts]
    # The kernel names no link: below a linked folder nothing would seem to be mounted.
    real = folder.resolve()
    return [point for point in points if Path(point).is_relative_to(real)]


def remove(cache: Path, mounts: Iterable[str], size: int) -> int:
    """Remove the cache and print that `size` bytes are free; return the exit code.

    1, with nothing removed, while something is mounted below it.
    """
    # Removing through a mount would empty what is mounted: a running node's volumes.
    held = find_mounts(cache, mounts)
    if held:
        _say(f"not removed: {held[0]} is mounted. `make cluster-down` ends a test cluster.")
        return 1
    # With its errors: half a cache that is said to be removed would fill a disk unseen.
    # What a link of that name leads to: the link itself is the user's.
    shutil.rmtree(cache.resolve(), ignore_errors=False)
    _say(f"{size / 1e6:8.0f} MB freed, all that was in {cache}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Print the table in megabytes of 10^6 bytes and, where asked for, remove everything in it.

    The last line has the total: of what is there, or of what was freed.
    The exit code: 1 where something is mounted in the cache, which is then left alone.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--remove", action="store_true", help="remove it all")
    options = parser.parse_args(arguments)
    cache = jars.choose_cache_dir()
    sizes = {name: count_bytes(cache / name) for name in FOLDERS if (cache / name).is_dir()}
    for name, size in sizes.items():
        _say(f"{size / 1e6:8.0f} MB  {name}: {FOLDERS[name]}")
    total = sum(sizes.values())
    if not options.remove or not cache.is_dir():
        _say(f"{total / 1e6:8.0f} MB in all, in {cache}")
        return 0
    # Without /proc (macOS) there are no mounts of a test cluster, which needs Linux.
    table = Path("/proc/mounts")
    mounts = table.read_text(encoding="utf-8").splitlines() if table.is_file() else []
    return remove(cache, mounts, total)


def _unescape(code: re.Match[str]) -> str:
    return chr(int(code[1], 8))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    raise SystemExit(main())
