"""What planning takes where the files of a table become more. `make bench-file-counts`.

Plans the export of tables of 1,000 to 1,000,000 data files, made of metadata alone, and a commit
that replaces three files of each, before and after all manifests were rewritten. Planning an export
means to cut it into chunks and to take each of them, as an export does, without reading rows. A
comparison reads the table's side with a filter that no row passes, so that no file is opened. All
garbage is collected every half second: what is left then in the JVM's heap must not grow with the
files, and neither must Python. With `--weigh` it prints instead what one snapshot, manifest or file
takes, in tables of so many data files. Prints one JSON object, or with `--table` Markdown.
"""

import argparse
import functools
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from icdc_spark.diff.change_plan import plan_changes
from icdc_spark.documents.document_spec import resolve_spec
from icdc_spark.documents.wishes import DocumentWishes
from icdc_spark.iceberg.scan.planning import release_groups
from icdc_spark.matching import differences
from icdc_spark.readers.choose import open_reader
from icdc_spark.replication.export import plan
from icdc_testing.bench.machine import describe_machine, print_runs
from icdc_testing.bench.session import start_bench_session
from icdc_testing.lake.metadata_table import MetadataTable
from memory_peaks import MemoryMeter
from planning_tables import ROWS, TOUCHED, read_head, write_manifest
from planning_weights import PlanningWeights

HEAP = "1g"
"""Of the JVM: what the driver of a pipeline has by default."""
FILES_OF_A_MANIFEST = 2_500


@dataclass(frozen=True, kw_only=True)
class CountedTable:
    """A table of many files, and a commit that replaced a few of them."""

    table: MetadataTable
    files: int
    since: int
    """The snapshot before the commit."""
    until: int
    """The snapshot that it made."""
    rewritten: int
    """The snapshot after all manifests were rewritten."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--weigh", type=int, help="data files of the tables")
    parser.add_argument("--table", action="store_true", help="print Markdown")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icdc-bench-") as name:
        gc_log = Path(name) / "gc.log"
        conf = {"spark.driver.extraJavaOptions": f"-Xlog:gc:file={gc_log}"}
        session = start_bench_session("bench-file-counts", Path(name), memory=HEAP, conf=conf)
        try:
            if options.weigh:
                runs = list(PlanningWeights(session, Path(name)).measure(options.weigh))
            else:
                meter = MemoryMeter(session, gc_log)
                runs = [
                    {"files": files, **_measure(meter, make_table(session, Path(name), files))}
                    for files in options.files
                ]
        finally:
            session.stop()
    result = {**describe_machine("pyspark"), "heap": HEAP, "runs": runs}
    print_runs(result, as_table=options.table)
    return 0


def make_table(session: SparkSession, folder: Path, files: int) -> CountedTable:
    """Create a table of metadata alone.

    Its manifests name the same files again, so that a million need not be described one by one.
    """
    properties = {"format-version": "2", "commit.manifest-merge.enabled": "false"}
    table = MetadataTable(session, str(folder / f"files-{files}"), **properties)
    described = table.bridge.create_object("java.util.ArrayList")
    for file in table.make_copies(table.make_data_file(rows=ROWS), min(files, FILES_OF_A_MANIFEST)):
        described.add(file)
    change = table.java.newFastAppend()
    for number in range(max(1, files // FILES_OF_A_MANIFEST)):
        location = f"{table.java.location()}/m{number}.avro"
        change = change.appendManifest(write_manifest(table, location, described))
    change.commit()
    replaced = [table.make_data_file() for _ in range(TOUCHED)]
    change = table.java.newFastAppend()
    for file in replaced:
        change = change.appendFile(file)
    change.commit()
    since = read_head(table)
    change = table.java.newOverwrite()
    for file in replaced:
        change = change.deleteFile(file).addFile(table.make_data_file())
    change.commit()
    until = read_head(table)
    same = table.bridge.build_function("org.apache.iceberg.ContentFile", "specId")
    table.java.rewriteManifests().clusterBy(same).commit()
    rewritten = read_head(table)
    return CountedTable(table=table, files=files, since=since, until=until, rewritten=rewritten)


def _measure(meter: MemoryMeter, made: CountedTable) -> dict[str, float]:
    taken: dict[str, float] = {}
    for name, work in _WORKS:
        seconds, heap = _time(meter, functools.partial(work, made))
        taken |= {f"{name}_seconds": round(seconds, 2), f"{name}_heap_mb": round(heap)}
    # Of kB, and the most until now: it shows growth alone.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**taken, "python_peak_mb": round(peak)}


def _time(meter: MemoryMeter, work: Callable[[], None]) -> tuple[float, float]:
    """Return the seconds without collections, and the heap in MB of another time with them."""
    started = time.monotonic()
    work()
    seconds = time.monotonic() - started
    return seconds, meter.measure(work).heap


def _plan_export(made: CountedTable) -> None:
    table = made.table.load()
    planned = plan(table, made.until)
    for chunk in planned.iterate_chunks():
        release_groups(table, [chunk.group])
    if planned.files < made.files:
        raise SystemExit(f"{planned.files} of {made.files} files were planned")


def _plan_commit(made: CountedTable, until: int | None = None) -> None:
    later = until or made.until
    changes = plan_changes(made.table.load(), made.since, later, keys=frozenset({1}))
    if (changes.added.files, changes.removed.files) != (TOUCHED, TOUCHED):
        raise SystemExit(f"planned: {changes}")


def _plan_rewritten(made: CountedTable) -> None:
    _plan_commit(made, made.rewritten)


def _read_compared(made: CountedTable) -> None:
    table = made.table.load()
    wishes = DocumentWishes(identifier_columns=("id",), row_filter="false")
    spec = resolve_spec(table.name, table.read_schema(made.until), wishes)
    with open_reader(table.bridge.session, table, made.until, spec) as reader:
        rows = differences.read_table(reader, spec, None, has_duplicates=False).count()
    if rows:
        raise SystemExit(f"{rows} rows of files that do not exist were read")


_WORKS = (
    ("export", _plan_export),
    ("verify", _read_compared),
    ("commit", _plan_commit),
    ("rewritten", _plan_rewritten),
)


if __name__ == "__main__":
    raise SystemExit(main())
