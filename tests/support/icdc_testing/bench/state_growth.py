"""Tables of constant size that change without end, and what is stored of them and of their run.

Each commit replaces all rows of a table, so that whatever grows with the batches is ours: what
OpenSearch, the catalog and the disk hold for the pipeline, and what its processes take. One row of
each batch is refused by its index. Nothing here knows how long it goes on.
"""

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from sqlalchemy.exc import OperationalError

from icdc_cli.embedded.lake import build_jdbc_catalog
from icdc_testing.bench.many_tables import FollowedTables
from icdc_testing.lake.catalogs.head_lake import end_threads
from icdc_testing.target import node_calls
from icdc_testing.waiting.wait import wait_until

ROWS = 20
CHANGED = 5
"""Rows that differ from commit to commit, beside the one that is refused."""
ENTRY = {"mapping": {"note": {"type": "date"}}}
"""What the spec says of each table: the note of one row is no date."""
_SECONDS = 180.0
_ATTEMPTS = 20
_CONFIDENCE = 1.96
"""Standard errors on each side of a slope, for 95 of 100 cases."""


class ChangingTables:
    """The tables `shop.t0` and so on of a JDBC catalog (SQLite). Use `close` at the end."""

    def __init__(self, folder: Path, count: int) -> None:
        (folder / "warehouse").mkdir(parents=True)
        self.properties: Mapping[str, str] = build_jdbc_catalog(
            folder / "catalog.db", folder / "warehouse"
        )
        self._catalog = SqlCatalog(
            "lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
        )
        self._catalog.create_namespace("shop")
        self.indices = [f"shop.t{number}" for number in range(count)]
        self.names = [f"shop.t{number}" for number in range(count)]
        for name in self.names:
            self._catalog.create_table(name, _make_rows(0).schema)

    def commit(self, number: int) -> dict[str, str]:
        """Replace the rows of every table; return the new snapshot of each by its index."""
        heads = {}
        for name, index in zip(self.names, self.indices, strict=True):
            self._try(name, lambda table: table.overwrite(_make_rows(number)))
            head = self._catalog.load_table(name).current_snapshot()
            assert head is not None
            heads[index] = str(head.snapshot_id)
        return heads

    def expire(self) -> None:
        """Remove all snapshots that no branch and no tag names."""

        def expire(table: Any) -> None:
            named = {ref.snapshot_id for ref in table.refs().values()}
            old = [one.snapshot_id for one in table.snapshots() if one.snapshot_id not in named]
            table.maintenance.expire_snapshots().by_ids(old).commit()

        for name in self.names:
            self._try(name, expire)

    def count_tags(self) -> int:
        """Return the number of tags of all tables."""
        return sum(len(self._catalog.load_table(name).refs()) - 1 for name in self.names)

    def close(self) -> None:
        """Close the database, and end the threads of pyiceberg."""
        self._catalog.engine.dispose()
        end_threads()

    def _try(self, name: str, act: Callable[[Any], object]) -> None:
        """Do something to a table whose tags the run changes meanwhile."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                act(self._catalog.load_table(name))
            except (CommitFailedException, OperationalError):
                if attempt == _ATTEMPTS:
                    raise
            else:
                return


def _make_rows(number: int) -> pa.Table:
    keys = list(range(ROWS))
    names = [f"name {number if key < CHANGED else 0:9}" for key in keys]
    notes = [f"of {number:9}" if key == ROWS - 1 else "2026-11-25" for key in keys]
    return pa.table({"id": pa.array(keys, pa.int64()), "name": names, "note": notes})


@dataclass(frozen=True, kw_only=True)
class StoredSizes:
    """What is stored for the pipeline at one moment."""

    state_bytes: int
    """Of the state documents, as JSON."""
    states: int
    """State documents."""
    states_deleted: int
    """Deleted documents in their index, which a merge removes."""
    dead_letters: int
    """Documents in all indices of dead letters."""
    report_bytes: int
    """Of the report, whose entries are those of the status."""
    tags: int
    """Of all tables."""
    scratch_files: int
    """Files and folders in the run's scratch directory."""


class Growth:
    """A run that follows changing tables, and samples of it."""

    def __init__(
        self,
        tables: ChangingTables,
        url: str,
        folder: Path,
        conf: Mapping[str, str] | None = None,
    ) -> None:
        """`conf` is Spark's, beside what every run has."""
        self._tables, self._url, self._folder, self._conf = tables, url, folder, conf
        self._commits = 0
        self.samples: list[dict[str, float]] = []

    def follow(self, *, epoch: int) -> FollowedTables:
        """Return a run of all tables, to be entered."""
        count = len(self._tables.names)
        return FollowedTables(
            self._folder,
            self._url,
            self._tables.properties,
            count,
            heap="1g",
            epoch=epoch,
            poll_seconds=1,
            entry=ENTRY,
            conf=self._conf,
        )

    def advance(self) -> None:
        """Commit to every table, and wait until all of it is applied."""
        self._commits += 1
        heads = self._tables.commit(self._commits)
        if self._commits % 10 == 0:
            self._tables.expire()

        def are_applied() -> bool:
            return {
                index: _find_applied(one) for index, one in self._read_states().items()
            } == heads

        wait_until(are_applied, f"commit {self._commits} is applied", seconds=_SECONDS)

    def sample(self, run: FollowedTables) -> None:
        """Add a sample of now."""
        batches = self._commits * len(self._tables.names)
        taken = {**asdict(self._measure_stored()), **asdict(run.take())}
        self.samples.append({"at": time.time(), "batches": batches, **taken})

    def _read_states(self) -> dict[str, Any]:
        answer = node_calls.call(
            self._url, "POST", "/icdc-state/_mget", {"ids": self._tables.indices}
        ).json
        stored: Any = answer.get("docs", [])
        return {one["_id"]: one.get("_source", {}) for one in stored}

    def _measure_stored(self) -> StoredSizes:
        documents: Any = node_calls.call(self._url, "GET", "/icdc-state/_stats/docs").json
        node_calls.call(self._url, "POST", "/*-dead-letters/_refresh")
        dead_letters: Any = node_calls.call(self._url, "GET", "/*-dead-letters/_count").json
        run = self._folder / "run-1"
        return StoredSizes(
            state_bytes=len(json.dumps(list(self._read_states().values()))),
            states=documents["_all"]["primaries"]["docs"]["count"],
            states_deleted=documents["_all"]["primaries"]["docs"]["deleted"],
            dead_letters=dead_letters["count"],
            report_bytes=(run / "report.json").stat().st_size,
            tags=self._tables.count_tags(),
            scratch_files=len(list((run / "scratch").rglob("*"))),
        )


def _find_applied(state: Mapping[str, Any]) -> str | None:
    applied = state.get("applied") or {}
    return applied.get("snapshotId")


@dataclass(frozen=True, kw_only=True)
class Trend:
    """How a figure changes with the batches."""

    first: float
    last: float
    slope: float
    """For 1,000 of what is counted, such as batches."""
    margin: float
    """The slope lies within so much of it, in 95 of 100 cases."""
    grows: bool
    """The slope is above 0 beyond the margin, and makes more than 5 % of the mean by the end."""


def measure_trend(batches: Sequence[float], values: Sequence[float]) -> Trend:
    """Return the line through the values, by least squares; three values at least.

    `batches` is how many there were at each value, or how many of something else.
    """
    slope, offset = statistics.linear_regression(batches, values)
    mean = statistics.fmean(batches)
    deviations = sum((one - mean) ** 2 for one in batches)
    rest = sum(
        (value - offset - slope * one) ** 2 for one, value in zip(batches, values, strict=True)
    )
    margin = _CONFIDENCE * (rest / (len(values) - 2) / deviations) ** 0.5
    growth = slope * (batches[-1] - batches[0])
    return Trend(
        first=values[0],
        last=values[-1],
        slope=slope * 1000,
        margin=margin * 1000,
        grows=slope > margin and growth > 0.05 * abs(statistics.fmean(values)),
    )
