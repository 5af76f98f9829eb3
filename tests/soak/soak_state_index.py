"""What OpenSearch stores of state documents that batches replace. `make soak-state-index`.

Plays the two changes of each batch by the application's own store, on a node of its own: the
intent, which is read back, and the advance. Every tenth round the index is refreshed, so that its
figures are true, and sampled. Then the same with another size at which the index is flushed. Prints
Markdown.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from icdc_api.naming import STATE_INDEX
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.stores.state_store import StateStore, Stored
from icdc_testing.bench.machine import describe_machine, format_runs
from icdc_testing.target.node_calls import call
from icdc_testing.target.state_documents import (
    LATER,
    NOW,
    make_applied,
    make_changelog,
    make_state_after_export,
)

ROUNDS_OF_A_SAMPLE = 10


def main() -> int:
    """Play with each size and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=500, help="batches of each table")
    parser.add_argument("--flush-at", nargs="+", default=["512mb", "4mb"], help="sizes to try")
    options = parser.parse_args()
    about = describe_machine("opensearch-py")
    runs = [_play(size, options.tables, options.rounds) for size in options.flush_at]
    sys.stdout.write(format_runs({"runs": runs, **about}) + "\n")
    return 0


def _play(size: str, tables: int, rounds: int) -> dict[str, Any]:
    """Return the greatest figures of all samples, and the last ones."""
    with (
        tempfile.TemporaryDirectory(prefix="icdc-soak-") as folder,
        OpenSearchNode(Path(folder)) as node,
    ):
        store = StateStore(Connection(hosts=(node.url,)))
        store.ensure_index()
        setting = {"index.translog.flush_threshold_size": size}
        call(node.url, "PUT", f"/{STATE_INDEX}/_settings", setting)
        first = make_state_after_export()
        stored = [
            store.create(first.model_copy(update={"alias": f"t{number}"}))
            for number in range(tables)
        ]
        samples, since = [], time.monotonic()
        for number in range(1, rounds + 1):
            stored = [_write_batch(store, one) for one in stored]
            if number % ROUNDS_OF_A_SAMPLE == 0:
                samples.append(_read_sizes(node.url))
        seconds = time.monotonic() - since
        store.close()
    return {
        "flushed at": size,
        "batches": tables * rounds,
        **{f"{name}, most": max(one[name] for one in samples) for name in samples[0]},
        **{f"{name}, last": samples[-1][name] for name in ("deleted", "store KB")},
        "seconds": round(seconds),
    }


def _write_batch(store: StateStore, stored: Stored) -> Stored:
    ordinal = stored.document.last_ordinal + 1
    applied = make_applied(ordinal, str(1000 + ordinal))
    before = stored.document.applied
    assert before is not None
    intent = make_changelog(ordinal, before.snapshot_id, str(applied.snapshot_id))
    begun = store.begin(stored, stored.document.with_intent(intent, now=NOW))
    return store.replace(begun, begun.document.advance(applied, now=LATER))


def _read_sizes(url: str) -> dict[str, int]:
    call(url, "POST", f"/{STATE_INDEX}/_refresh")
    answer: Any = call(url, "GET", f"/{STATE_INDEX}/_stats").json
    index = answer["_all"]["primaries"]
    return {
        "deleted": index["docs"]["deleted"],
        "store KB": index["store"]["size_in_bytes"] // 1000,
        "segments": index["segments"]["count"],
        "translog KB": index["translog"]["uncommitted_size_in_bytes"] // 1000,
    }


if __name__ == "__main__":
    raise SystemExit(main())
