"""How long it takes from a commit to a search that finds its row, of many commits."""

import os
import statistics
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from pyiceberg.table import Table

from icdc_testing.real_cluster.shop import RUN_SECONDS, Shop, make_rows
from icdc_testing.target import node_calls
from icdc_testing.waiting import wait

COMMITS = int(os.environ.get("ICDC_COMMITS", "100"))
"""As many as the figures are made of."""
_FIRST = 11
"""The `id` of the first row that is committed here; those before are of the export."""
_PAUSE_SECONDS = 0.1


def create_table(shop: Shop) -> Table:
    """Return the table before the first commit."""
    return shop.create_table("ticks", make_rows(1, _FIRST - 1))


def format_delays(name: str, seconds: Sequence[float]) -> str:
    """Return the figures in words."""
    ordered = sorted(seconds)
    late = ordered[int(len(ordered) * 0.95)]
    return f"{name}: p50 {statistics.median(ordered):.2f} s, p95 {late:.2f} s, of {len(ordered)}"


class LatencyWatch:
    """Commits rows to the table of a shop, and notes when a search finds each.

    A context manager. Times are in seconds since 1970, by the clock of this host.
    """

    def __init__(self, shop: Shop, table: Table) -> None:
        self.committed: dict[int, float] = {}
        self._found: dict[int, float] = {}
        self._refused: list[str] = []
        self._table = table
        self._url, self._index = shop.cluster.facts["search"], shop.name_index(table)
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1, "searches")

    def __enter__(self) -> Self:
        self._work = self._pool.submit(self._search)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        with self._pool:
            self._work.result()

    def commit(self, count: int, *, apart: float) -> None:
        """Commit a row at a time, at a pace of so many seconds; wait for nothing."""
        begun = time.monotonic()
        for done in range(1, count + 1):
            number = _FIRST + len(self.committed)
            self._table.append(make_rows(number, number))
            self.committed[number] = self._table.metadata.snapshots[-1].timestamp_ms / 1000
            # The pace of the load, not a wait for something.
            time.sleep(max(0.0, begun + done * apart - time.monotonic()))

    def wait_for_searches(self) -> dict[int, float]:
        """Wait until a search finds every committed row; return the time of each by its id."""

        def is_complete() -> bool:
            if self._found.keys() == self.committed.keys():
                return True
            assert not self._work.done(), f"the search ended: {self._work.exception()}"
            return False

        try:
            wait.wait_until(
                is_complete, "a search finds every row that was committed", seconds=RUN_SECONDS
            )
        except AssertionError as error:
            raise AssertionError(f"{error}; searches refused: {self._refused[-3:]}") from error
        return dict(self._found)

    def measure_delays(self) -> list[float]:
        """Return the seconds from each commit until its row was found, once all are."""
        seconds = self.wait_for_searches()
        return [seconds[number] - at for number, at in self.committed.items()]

    def _search(self) -> None:
        query = {"size": COMMITS, "_source": ["id"], "query": {"range": {"id": {"gte": _FIRST}}}}
        while not self._stop.wait(_PAUSE_SECONDS):
            answer = node_calls.call(self._url, "POST", f"/{self._index}/_search", query).json
            now = time.time()
            if "hits" not in answer:
                # A busy node refuses a search now and then; the next one comes at once.
                self._refused.append(str(answer)[:500])
                continue
            hits = answer["hits"]
            assert isinstance(hits, dict)
            for hit in hits["hits"]:
                self._found.setdefault(hit["_source"]["id"], now)
