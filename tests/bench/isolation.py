"""What a table that misbehaves takes from the nine others of its run: documents and time."""

import statistics
import sys
from pathlib import Path
from typing import Any

from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.bench.changelog import start_session
from icdc_testing.bench.machine import describe_machine
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.tables.misbehaving import FAULTS
from icdc_testing.tables.side_by_side import Played, SideBySide

_OTHERS = 9
_PROGRESS_SECONDS = 25.0
"""After which a hung step is cancelled here: later than the others end."""
_SLOW_SECONDS = 10.0
"""That the slow index takes for each request."""


def measure_isolation(folder: Path, *, rows: int, rounds: int) -> dict[str, Any]:
    """Return a row of figures for each way to misbehave, and the machine.

    Each of the tables gets a batch of `rows` rows, `rounds` times with the fault and without.
    """
    spark = start_session(folder, memory="2g")
    try:
        with OpenSearchNode(folder / "opensearch") as node, FaultProxy(node.url) as proxy:
            lake = Lake(spark)
            runs: list[dict[str, Any]] = []
            for fault in FAULTS:
                tables = SideBySide(
                    lake,
                    proxy,
                    folder,
                    healthy=_OTHERS,
                    faults=[fault],
                    rows=rows,
                    progress_seconds=_PROGRESS_SECONDS,
                    slow_seconds=_SLOW_SECONDS,
                )
                if not runs:
                    # Once for the first time: what is compiled and cached then.
                    tables.play(faults=False)
                runs.append(_compare(fault, tables, rounds))
                sys.stderr.write(f"{runs[-1]}\n")
    finally:
        spark.stop()
    return {**describe_machine("pyspark"), "rows of a batch": rows, "rounds": rounds, "runs": runs}


def _compare(fault: str, tables: SideBySide, rounds: int) -> dict[str, Any]:
    played: dict[bool, list[Played]] = {True: [], False: []}
    for number in range(rounds):
        first = number % 2 == 1
        for faults in (first, not first):
            played[faults].append(tables.play(faults=faults))
    one = played[False][0]
    everyone = played[True] + played[False]
    same = [run.documents == one.documents for run in everyone]
    reported = [run.reported == one.reported for run in everyone]
    pairs = zip(played[True], played[False], strict=True)
    ratios = sorted(beside.seconds / alone.seconds for beside, alone in pairs)
    return {
        "one table": fault,
        "documents of the others": one.documents.total(),
        "bytes of the others": one.document_bytes,
        "documents equal": f"{sum(same)} of {len(same)}",
        "reports equal": f"{sum(reported)} of {len(reported)}",
        "without, s": round(statistics.median(run.seconds for run in played[False]), 1),
        "with, s": round(statistics.median(run.seconds for run in played[True]), 1),
        "ratio": round(statistics.median(ratios), 2),
        "ratios": ", ".join(f"{ratio:.2f}" for ratio in ratios),
    }
