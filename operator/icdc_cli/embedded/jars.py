"""Gives local runs the jars they need: fetched once, checked against the lock, then cached.

`fetch_jars` is what callers use; `python -m icdc_cli.embedded.jars` fetches ahead of time or
writes the lock anew. What a user gains: all three sets are there in 0.2 s and offline, after 20 s
and Maven the first time (2 busy cores, November 2026), and local runs and nodes have the very jars
that were tested, which `--packages` resolves anew on each host. Knows neither Spark nor OpenSearch
beyond the names of their jars.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from icdc_api.errors import BadSpec, IcdcError, Submission
from icdc_cli.embedded import jar_lock, maven
from icdc_cli.embedded.jar_lock import JarSet, LockedJar

SPARK_SET = "spark"
"""For Spark on this host, and in the image; what pyspark itself does not bring."""
IMAGE_SET = "image"
OPENSEARCH_VERSIONS = ("2.19.6", "3.8.0")
"""OpenSearch releases that can be embedded, oldest first."""

# The server, its transport, and modules of every distribution that runs need: reindex has
# delete-by-query, mapper-extras the type scaled_float. Analyzers and scripts are for users.
_OPENSEARCH_PARTS = (
    "org.opensearch:opensearch",
    "org.opensearch:opensearch-plugin-classloader",
    "org.opensearch.plugin:transport-netty4-client",
    "org.opensearch.plugin:reindex-client",
    "org.opensearch.plugin:mapper-extras-client",
    "org.opensearch.plugin:analysis-common",
    "org.opensearch.plugin:lang-painless",
)
_ICEBERG = "1.12.0"
# The server refers to log4j-core without depending on it.
_LOG4J_CORE = "org.apache.logging.log4j:log4j-core:2.25.4"


def name_opensearch_set(version: str) -> str:
    """Return the name of the set that holds an OpenSearch node of this version."""
    return f"opensearch-{version}"


ROOTS: dict[str, tuple[str, ...]] = {
    SPARK_SET: (
        f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{_ICEBERG}",
        "org.xerial:sqlite-jdbc:3.50.3.0",
    ),
    # What the image has on top: S3 and Glue, and a database that JDBC catalogs live in.
    IMAGE_SET: (
        f"org.apache.iceberg:iceberg-aws-bundle:{_ICEBERG}",
        "org.postgresql:postgresql:42.7.8",
    ),
    **{
        name_opensearch_set(version): (
            *(f"{part}:{version}" for part in _OPENSEARCH_PARTS),
            _LOG4J_CORE,
        )
        for version in OPENSEARCH_VERSIONS
    },
}
"""What each set is for; the lock lists these and everything they need at run time."""


def choose_cache_dir() -> Path:
    """Return the folder of fetched and compiled files: ICDC_CACHE_DIR, or the user's cache.

    Absolute, because processes that get paths from it work in other directories. It may be removed
    at any time: everything in it is fetched or made again. BadSpec for a user without a home.
    """
    own = os.environ.get("ICDC_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    path = Path(own) if own else Path(base, "iceberg-cdc-operator")
    try:
        return path.expanduser().absolute()
    # A user without a home, such as in a container that runs by a number alone.
    except RuntimeError as error:
        raise BadSpec(f"{path}: no home directory is known: set HOME or ICDC_CACHE_DIR") from error


def fetch_jars(name: str, lock: dict[str, JarSet] | None = None) -> list[Path]:
    """Return the paths of a set's jars; fetch them when the cache has no complete copy.

    Fast and offline once fetched. Submission where they cannot be had: no Maven, no network, or
    a file that is not the one of the lock. BadSpec for a name that the lock does not have.

        the lock has 2 files with sums for "spark"   key spark-1f0c…, new with any change of them
        jars/spark-1f0c…/ is complete                return its paths
        it is not                                    lock out other processes, fill a folder beside
                                                     it by Maven, check the sums, rename

    Sets of older locks stay in the cache: another checkout, or a node that runs, may use them.
    """
    sets = jar_lock.load() if lock is None else lock
    if name not in sets:
        raise BadSpec(f"There is no set of jars '{name}'; there are {', '.join(sorted(sets))}.")
    wanted = sets[name]
    folder = choose_cache_dir() / "jars" / wanted.key
    if not _is_complete(folder, wanted):
        with hold_lock(folder.with_name(f".{wanted.key}.lock")):
            # Another process may have fetched the set while this one waited.
            if not _is_complete(folder, wanted):
                _fetch(wanted, folder)
    return [folder / jar.file for jar in wanted.jars]


def is_fetched(name: str) -> bool:
    """Return whether the cache has all jars of a set; fetches nothing."""
    wanted = jar_lock.load()[name]
    return _is_complete(choose_cache_dir() / "jars" / wanted.key, wanted)


@contextmanager
def hold_lock(lock_file: Path) -> Iterator[None]:
    """Hold a lock between processes; the operating system frees it when a holder dies."""
    try:
        lock_file.parent.mkdir(parents=True, exist_ok=True)
        handle = lock_file.open("w")
    except OSError as exc:
        raise Submission(
            f"The cache {lock_file.parent} cannot be written: {exc.strerror}. "
            "Set ICDC_CACHE_DIR to a folder that can."
        ) from exc
    with handle:
        # Waits, for as long as another process fetches: that one's success is ours as well.
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _is_complete(folder: Path, wanted: JarSet) -> bool:
    try:
        present = {entry.name for entry in folder.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return False
    # Names are enough: the sums were checked before the folder got its name, and a start
    # need not read all jars once more.
    return all(jar.file in present for jar in wanted.jars)


def _fetch(wanted: JarSet, folder: Path) -> None:
    """Fill a folder beside the final one and rename it: no reader sees half a set."""
    # With a dot and another name than the final one: `_is_complete` never sees it, and what a
    # killed process leaves behind is in nobody's way.
    scratch = Path(tempfile.mkdtemp(prefix=f".{wanted.name}-", dir=folder.parent))
    try:
        maven.copy_exactly((jar.coordinates for jar in wanted.jars), scratch)
        for jar in wanted.jars:
            _check(scratch / jar.file, jar)
        # mkdtemp lets nobody else in, and a cache may be shared between users.
        scratch.chmod(0o755)
        # An incomplete copy, which a rename does not replace.
        shutil.rmtree(folder, ignore_errors=True)
        scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _check(path: Path, jar: LockedJar) -> None:
    """Raise Submission unless the file is the one of the lock. Maven checks only sums that come
    from the same server as the file."""
    if not path.is_file():
        raise Submission(
            f"Maven ended without an error but did not deliver {jar.file} ({jar.coordinates}); "
            "check its mirror settings, then try again."
        )
    checksum = _hash_file(path)
    if checksum != jar.sha256:
        raise Submission(
            f"{jar.file} ({jar.coordinates}) has the checksum {checksum}, the lock says "
            f"{jar.sha256}: it is not used. Remove it from Maven's local repository, check the "
            "mirror, try again."
        )


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def resolve(name: str, roots: Sequence[str] = ()) -> JarSet:
    """Resolve a set by Maven, as a new lock would hold it; from `roots`, else those of the set."""
    with tempfile.TemporaryDirectory(prefix="icdc-lock-") as scratch:
        resolved = maven.copy_with_dependencies(roots or ROOTS[name], Path(scratch))
        jars = [LockedJar(coords, path.name, _hash_file(path)) for path, coords in resolved.items()]
    if not jars:
        raise Submission(f"Maven resolved no jar for the set '{name}'.")
    return JarSet(name, tuple(sorted(jars)))


def _write_lock() -> None:
    # All sets before the file is opened: Maven may fail at the last one.
    text = jar_lock.render({name: resolve(name) for name in ROOTS})
    Path(__file__).with_name(jar_lock.LOCK_NAME).write_text(text, encoding="utf-8")


def _copy(jars: Sequence[Path], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # Copies and no links: an image has no cache that a link could lead to.
    for jar in jars:
        shutil.copyfile(jar, folder / jar.name)


def main(argv: Sequence[str] | None = None, lock: dict[str, JarSet] | None = None) -> int:
    """Run `python -m icdc_cli.embedded.jars`; return the exit code."""
    parser = argparse.ArgumentParser(prog="icdc_cli.embedded.jars", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("fetch", help="put the jars into the cache")
    fetch.add_argument("sets", nargs="*", metavar="SET", help="default: every set")
    fetch.add_argument("--into", type=Path, metavar="FOLDER", help="put a copy there as well")
    commands.add_parser("lock", help="resolve every set anew and write the lock")
    options = parser.parse_args(argv)
    try:
        if options.command == "lock":
            _write_lock()
            return 0
        for name in options.sets or list(ROOTS):
            jars = fetch_jars(name, lock)
            sys.stdout.write(f"{name}: {len(jars)} jars in {jars[0].parent}\n")
            if options.into is not None:
                _copy(jars, options.into)
    except IcdcError as exc:
        sys.stderr.write(f"error: {exc.message}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
