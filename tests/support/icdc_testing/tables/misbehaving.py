"""Ways in which one table of an application misbehaves: what is done to it, and what it then says.

Each is a context manager around the commit of a snapshot that is there already and not current
yet, so that it meets the batch to that snapshot and nothing else.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from icdc_spark.iceberg.jvm.table_jobs import TableJobs
from icdc_testing.lake.damage import cut, find_file, garble, silence_file
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Delay
from icdc_testing.target import node_calls

HANG = "hangs in reading"
REMOVED = "removed from the spec"
SCHEMA = "changes its schema"


@dataclass(frozen=True)
class MisbehavingTable:
    """A table that misbehaves, and what is around it."""

    lake: Lake
    proxy: FaultProxy
    table: str
    """Its name below the catalog."""
    index: str
    """Its alias."""
    snapshot: int
    """The snapshot to which it advances next."""
    slow_seconds: float
    """How long a slow index takes for each bulk request."""

    @property
    def bulk(self) -> str:
        """The path of its bulk requests."""
        return f"/{self.index}-000001/_bulk"

    def find_data_file(self) -> str:
        """Return the location of a data file that the next snapshot adds."""
        java = self.lake.load_table(self.table).java
        files = java.snapshot(self.snapshot).addedDataFiles(java.io())
        return str(files.iterator().next().location())

    def find_manifest(self) -> str:
        """Return the location of a manifest that the next snapshot adds."""
        java = self.lake.load_table(self.table).java
        manifests = java.snapshot(self.snapshot).dataManifests(java.io())
        return str(next(m.path() for m in manifests if m.snapshotId() == self.snapshot))


@contextmanager
def _damage(location: str, how: Callable[[bytes], bytes]) -> Iterator[None]:
    path = find_file(location)
    content = path.read_bytes()
    path.write_bytes(how(content))
    try:
        yield
    finally:
        path.write_bytes(content)


def _break_planning(victim: MisbehavingTable) -> AbstractContextManager[None]:
    """Cut a manifest short."""
    return _damage(victim.find_manifest(), cut)


def _break_reading(victim: MisbehavingTable) -> AbstractContextManager[None]:
    """Put something else into a data file."""
    return _damage(victim.find_data_file(), garble)


@contextmanager
def _break_sink(victim: MisbehavingTable) -> Iterator[None]:
    """Let the index refuse every write."""
    block = {"index.blocks.write": True}
    path = f"/{victim.index}-000001/_settings"
    assert node_calls.call(victim.proxy.upstream, "PUT", path, block).status == 200
    yield


def _hang(victim: MisbehavingTable) -> AbstractContextManager[None]:
    """Let a task open the data file, from which nothing comes."""
    return silence_file(victim.find_data_file())


@contextmanager
def _slow(victim: MisbehavingTable) -> Iterator[None]:
    """OpenSearch takes its time for each bulk request."""
    rule = victim.proxy.add(Delay(victim.slow_seconds), path=victim.bulk, times=None)
    yield
    assert rule.hits > 0


@contextmanager
def _cancel_jobs(victim: MisbehavingTable) -> Iterator[None]:
    """Cancel the table's jobs while a bulk request of theirs is under way."""
    held = victim.proxy.hold(victim.bulk)

    def cancel() -> None:
        held.wait()
        TableJobs(victim.lake.session).cancel(victim.index)
        held.drop()

    thread = threading.Thread(target=cancel)
    thread.start()
    yield
    thread.join()
    assert held.held.is_set()


@contextmanager
def _change_schema(victim: MisbehavingTable) -> Iterator[None]:
    """Give a column another name, and add a row: documents would differ."""
    name = f"{victim.lake.catalog}.{victim.table}"
    victim.lake.sql(f"alter table {name} rename column name to title")
    victim.lake.sql(f"insert into {name} values (-1, 'x', 1.5D)")
    yield


@contextmanager
def _leave_alone(_: MisbehavingTable) -> Iterator[None]:
    """What happens to it is not done to the table."""
    yield


@dataclass(frozen=True)
class Misbehaviour:
    """One way to misbehave."""

    begin: Callable[[MisbehavingTable], AbstractContextManager[None]]
    reason: str | None
    """What the table's status says then; None where it is followed all the same."""


FAULTS = {
    "fails in planning": Misbehaviour(_break_planning, "FileUnreadable"),
    "fails in reading": Misbehaviour(_break_reading, "FileUnreadable"),
    "fails in the sink": Misbehaviour(_break_sink, "TargetReadOnly"),
    HANG: Misbehaviour(_hang, "NoProgress"),
    "has a slow index": Misbehaviour(_slow, None),
    "is cancelled": Misbehaviour(_cancel_jobs, None),
    SCHEMA: Misbehaviour(_change_schema, "IncompatibleSchema"),
    REMOVED: Misbehaviour(_leave_alone, None),
}
