"""A pipeline on the cluster as users have it: charts, REST catalog, S3, a disk of the node."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from icdc_testing.kube.charts import gitops
from icdc_testing.kube.kstatus import Verdict
from icdc_testing.real_cluster.shop import MODEST, RUN_SECONDS, Shop, make_rows
from icdc_testing.waiting import wait

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

KEYS: dict[str, tuple[str, ...]] = {"orders": ("id",), "customers": ("id",), "events": ()}
"""The tables; the last one is only appended to, and has no key."""


def make_note(number: int) -> str | None:
    """Return the note of a row; None for every other one."""
    return f"note {number}" if number % 2 else None


def make(site: Shop) -> dict[str, Table]:
    """Return the three tables with their first rows."""
    orders = make_rows(1, 3000, status=lambda n: "new", total=lambda n: n / 4, note=make_note)
    return {
        "orders": site.create_table("orders", orders),
        "customers": site.create_table(
            "customers", make_rows(1, 500, name=lambda n: f"customer {n}")
        ),
        "events": site.create_table("events", make_rows(1, 200, kind=lambda n: "seen")),
    }


def change(tables: dict[str, Table]) -> None:
    """Rows change, come and go."""
    changed = {
        "id": pa.array([7, 8, 5000], pa.int64()),
        "status": ["paid", "paid", "new"],
        "total": [1.5, 2.5, 3.5],
        "note": pa.array([None, None, None], pa.string()),
    }
    tables["orders"].upsert(pa.table(changed), join_cols=["id"])
    tables["orders"].delete("id <= 5")
    tables["events"].append(make_rows(201, 210, kind=lambda n: "bought"))


def is_on_disk(folder: Path, start: str) -> bool:
    """True if the name of a file or folder below `folder` begins with `start`."""
    return any(
        name.startswith(start) for _, dirs, files in os.walk(folder) for name in dirs + files
    )


def assert_equal(site: Shop, tables: dict[str, Table]) -> None:
    """Require that every index is its table."""
    for name, table in tables.items():
        site.assert_equal(table, *KEYS[name])


def test_three_tables_are_exported_and_followed(shop: Callable[..., Shop]) -> None:
    site = shop()
    tables = make(site)
    entries = [site.make_entry(name, *key, appendOnly=not key) for name, key in KEYS.items()]
    resource = site.make_resource(entries)
    resource["spec"]["spark"]["conf"] = MODEST
    site.apply(resource)

    # Rows are shuffled on the disk of the node: seen there while it runs, gone after.
    site.wait_until(
        lambda status: status.get("phase") == "Exporting", "the first export is told of"
    )
    assert re.search(r" Exporting +[0-2]/3 ", site.run_kubectl("get", "icdc", site.name))
    assert gitops.check_agreement(site.read_pipeline()) == Verdict.IN_PROGRESS
    wait.wait_until(
        lambda: is_on_disk(site.scratch, "blockmgr-"),
        "Spark uses the local volume",
        seconds=RUN_SECONDS,
    )
    site.run_kubectl(
        "wait", "--for=condition=Ready", f"icdc/{site.name}", f"--timeout={RUN_SECONDS}s"
    )
    assert "3/3" in site.run_kubectl("get", "icdc", site.name)
    assert gitops.check_agreement(site.read_pipeline()) == Verdict.CURRENT
    assert_equal(site, tables)

    change(tables)
    site.wait_until_applied(*tables.values())
    assert_equal(site, tables)
    site.wait_until(lambda status: not status.get("currentRun"), "the run has ended")
    wait.wait_until(
        lambda: not is_on_disk(site.scratch, "shuffle_"), "no shuffled row is left", seconds=120
    )
