"""The parent of Spark's Python workers, in place of pyspark's own: it only starts them cheaper.

Workers are forked from this process, so what every task imports is imported here, once. And Spark
puts archives on Python's path, whose directories each task would read anew: its core jar, in which
no Python lies, and pyspark itself, which is loaded from its folder where there is one. Must not
know what tasks do, nor open anything that a fork would share.
"""

import gc
import importlib
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path


def without_archives(path: Sequence[str]) -> list[str]:
    """The path without jars, and without archives of pyspark and py4j of which it has the folder.

    A folder counts where it belongs to the very archive: versions must not be mixed.
    """
    plain = [entry for entry in path if not entry.endswith((".jar", ".zip"))]
    return [entry for entry in path if not _is_needless(Path(entry), plain)]


def _is_needless(entry: Path, plain: Sequence[str]) -> bool:
    if entry.name == "pyspark.zip":
        return _folder("pyspark", plain) == entry.resolve().parent.parent.parent
    if entry.name.startswith("py4j-"):
        return entry.name == f"py4j-{_version('py4j', plain)}-src.zip"
    return entry.suffix == ".jar"


def _folder(package: str, path: Sequence[str]) -> Path | None:
    found = PathFinder.find_spec(package, path)
    return Path(found.origin).resolve().parent if found and found.origin else None


def _version(package: str, path: Sequence[str]) -> str | None:
    found = next(iter(metadata.distributions(name=package, path=list(path))), None)
    return found.version if found else None


def shorten_path() -> None:
    """Lets this process and its workers look for modules where there are any."""
    sys.path[:] = without_archives(sys.path)
    for entry in sys.path_importer_cache.keys() - set(sys.path):
        if entry.endswith((".jar", ".zip")):
            del sys.path_importer_cache[entry]


def main() -> None:
    """Forks workers until Spark ends it."""
    shorten_path()
    # Imported by now, and not above: pyspark would be loaded from its archive.
    for module in (
        "pyarrow",
        "icdc_spark.verification.comparison",
        "icdc_spark.opensearch.bulk.sink",
    ):
        importlib.import_module(module)
    manager: Callable[[], None] = importlib.import_module("pyspark.daemon").manager
    # What is loaded by now is for ever: workers need neither copy nor search it.
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
