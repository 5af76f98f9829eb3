"""A class-data archive for Spark's JVM: what it loads at every start, read and checked only once.

Spark loads some ten thousand classes before its first row, which is most of what a small local run
costs. What a user gains: every `icdc run`, `plan`, `verify` and demo starts sooner. A process that
starts Spark, makes three Iceberg tables of three rows and reads them took 4.3 to 5.5 CPU seconds
with the archive and 8.1 to 9.3 without (four starts each in turn, 2 busy cores, Spark 4.1.4,
OpenJDK 17, November 2026). The archive fits one build of Java and the very jars
it was made with, their times too, so it belongs to one installation and lies in its prefix; the
JVM itself checks whether it fits. It only saves time: without one, everything works. `python -m
icdc_cli.embedded.class_data` makes it where there is none. Knows of Spark what `lake` knows.
"""

import hashlib
import importlib.util
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from icdc_api.errors import IcdcError
from icdc_cli.embedded import jars, jdk, lake

# The archive may not fit options that a user adds: the JVM goes on without, and need not say so.
_QUIET = "-Xlog:cds*=off"
_DUMP_SECONDS = 300.0
"""Time for Spark to end: the JVM writes the archive only then."""

_STATEMENTS = (
    "CREATE TABLE {t} (id BIGINT, s STRING, d DECIMAL(9,2), at TIMESTAMP, tags ARRAY<STRING>, "
    "m MAP<STRING, INT>, n STRUCT<a: INT>) USING iceberg PARTITIONED BY (bucket(2, id)) "
    "TBLPROPERTIES ('write.merge.mode'='merge-on-read', 'write.delete.mode'='merge-on-read')",
    "INSERT INTO {t} SELECT id, string(id), id, current_timestamp(), array('a'), map('a', 1), "
    "named_struct('a', 1) FROM range(1000)",
    "MERGE INTO {t} t USING (SELECT 3L id) c ON t.id = c.id "
    "WHEN MATCHED THEN UPDATE SET s = 'x' WHEN NOT MATCHED THEN INSERT (id) VALUES (c.id)",
    "DELETE FROM {t} WHERE id = 4",
    "SELECT snapshot_id FROM {t}.snapshots",
    "SELECT count(*), max(to_json(struct(*))), max(xxhash64(id, s, d)) FROM {t} a "
    "FULL OUTER JOIN (SELECT id AS other, s AS s2 FROM {t}) b ON a.id = b.other "
    "WHERE a.s IS DISTINCT FROM 'y'",
    "ALTER TABLE {t} CREATE TAG warm",
)
"""What local runs make Spark do: writing, merging, reading, joining, text and JSON of rows."""


def build_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables for a process that starts Spark; none without an archive.

    The process must run the JDK of `jdk.find_spark_jdk`, with the set of jars for Spark first on
    its class path.
    """
    archive = build_archive_path()
    if not archive.is_file():
        return {}
    return _with_options(environ, f"-XX:SharedArchiveFile={archive}", _QUIET)


def make() -> Path:
    """Return the path of this installation's archive; make it if missing, in half a minute.

    Submission without a JDK or jars, SourceUnavailable where Spark does not start; OSError where
    the prefix cannot be written.
    """
    archive = build_archive_path()
    if not archive.is_file():
        archive.parent.mkdir(parents=True, exist_ok=True)
        # Two `make setup` at once would each take half a minute, and one of the two for nothing.
        with jars.hold_lock(archive.with_suffix(".lock")):
            # Another process may have made it while this one waited.
            if not archive.is_file():
                _make(archive)
    return archive


def _make(archive: Path) -> None:
    """Run statements of all kinds in a Spark that writes its loaded classes to `archive`."""
    # Beside the archive, as a rename works within one file system: a JVM that starts meanwhile sees
    # no archive, or all of it.
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".class-data-") as scratch:
        folder = Path(scratch)
        made = folder / archive.name
        catalog = lake.build_jdbc_catalog(folder / "catalog.db", folder / "warehouse")
        dumping = _with_options(os.environ, f"-XX:ArchiveClassesAtExit={made}", _QUIET)
        writer = lake.LakeProcess(
            catalog, folder=folder, environment=dumping, stop_seconds=_DUMP_SECONDS
        )
        with writer:
            writer.run_sql("CREATE NAMESPACE IF NOT EXISTS lake.warm")
            for statement in _STATEMENTS:
                writer.run_sql(statement.format(t="lake.warm.t"))
        # Of another Java or other jars, so no JVM of this installation maps them any more.
        for old in archive.parent.glob("spark-*.jsa"):
            old.unlink()
        # After the lake has ended: the JVM writes the file while it exits.
        made.rename(archive)


def _with_options(environ: Mapping[str, str], *options: str) -> dict[str, str]:
    """Return the variable with `options` behind what the environment has there.

    Each once: the environment may be that of an `icdc` which has added them already. Not by
    `spark.driver.extraJavaOptions`, which belongs to the user and has one value.
    """
    given = shlex.split(environ.get(jdk.SUBMIT_OPTIONS, ""))
    return {
        jdk.SUBMIT_OPTIONS: shlex.join(
            [*given, *(option for option in options if option not in given)]
        )
    }


def build_archive_path() -> Path:
    """Return the path of the archive that fits; another Java or jar gives another name.

    Submission without a JDK or jars. The JVM compares paths, sizes and times of all jars at each
    start and turns an archive down whole if one differs. By its name one that cannot fit is never
    offered, and a new one takes its place.
    """
    state = "\n".join([jdk.find_spark_jdk().build, *_list_jar_states()])
    key = hashlib.sha256(state.encode()).hexdigest()[:16]
    return Path(sys.prefix) / "var" / "iceberg-cdc-operator" / f"spark-{key}.jsa"


def _list_jar_states() -> Iterator[str]:
    """Yield a line for each jar on the class path of Spark, ours first, then those of pyspark."""
    package = importlib.util.find_spec("pyspark")
    homes = [] if package is None else list(package.submodule_search_locations or ())
    files = [file for home in homes for file in sorted(Path(home, "jars").glob("*.jar"))]
    for file in [*jars.fetch_jars(jars.SPARK_SET), *files]:
        stat = file.stat()
        yield f"{file} {stat.st_size} {stat.st_mtime_ns}"


def main() -> int:
    """Make the archive; return 0 even on failure, which is printed and only slows later starts."""
    try:
        archive = make()
    except (IcdcError, OSError) as error:
        sys.stderr.write(f"Spark starts without a class-data archive, a little slower: {error}\n")
        return 0
    sys.stdout.write(f"class data: {archive}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
