"""Starts Spark's Python workers, in place of pyspark's own daemon, for fewer CPU seconds.

Workers are forked from this process, so modules that every task imports are imported here, once.
Spark also puts archives on Python's path, whose directories each task would read anew. They are
removed where a folder serves:

    spark-core_2.13-4.0.jar      removed: no Python module is in it
    pyspark.zip                  removed if pyspark's folder beside it is on the path
    py4j-0.10.9.9-src.zip        removed if py4j is installed in that very version
    any other archive            stays

It must not know what tasks do, nor open anything that a fork would share.
"""

import gc
import importlib
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path


def without_archives(path: Sequence[str]) -> list[str]:
    """Return `path` without jars, and without archives of pyspark and py4j that it does not need.

    A folder replaces only the archive of its own version: versions must not be mixed.
    """
    plain = [entry for entry in path if not entry.endswith((".jar", ".zip"))]
    return [entry for entry in path if not _is_needless(Path(entry), plain)]


def _is_needless(entry: Path, plain: Sequence[str]) -> bool:
    if entry.name == "pyspark.zip":
        # An installed pyspark is its own SPARK_HOME, and has the archive in its folder python/lib.
        return _find_folder("pyspark", plain) == entry.resolve().parent.parent.parent
    if entry.name.startswith("py4j-"):
        return entry.name == f"py4j-{_find_version('py4j', plain)}-src.zip"
    return entry.suffix == ".jar"


def _find_folder(package: str, path: Sequence[str]) -> Path | None:
    spec = PathFinder.find_spec(package, path)
    return Path(spec.origin).resolve().parent if spec and spec.origin else None


def _find_version(package: str, path: Sequence[str]) -> str | None:
    distribution = next(iter(metadata.distributions(name=package, path=list(path))), None)
    return distribution.version if distribution else None


def remove_archives() -> None:
    """Remove what `without_archives` does from the path of this process and its workers."""
    sys.path[:] = without_archives(sys.path)
    for entry in sys.path_importer_cache.keys() - set(sys.path):
        if entry.endswith((".jar", ".zip")):
            del sys.path_importer_cache[entry]


def main() -> None:
    """Fork workers until Spark ends this process."""
    remove_archives()
    # Not at the top of the file: there pyspark would be loaded from its archive.
    for module in (
        "pyarrow",
        "icdc_spark.verification.comparison",
        "icdc_spark.opensearch.bulk.sink",
    ):
        importlib.import_module(module)
    manager: Callable[[], None] = importlib.import_module("pyspark.daemon").manager
    # Modules are never freed: without this the collector would touch them in every worker, and
    # the kernel copy their pages.
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
