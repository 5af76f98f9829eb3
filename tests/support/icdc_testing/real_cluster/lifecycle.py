"""Brings a cluster up and takes it down, one at a time on a host.

The order matters: each step needs those before it. `facts` is what tests get to know.
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icdc_api.errors import BadSpec, Submission
from icdc_cli.embedded import jars
from icdc_testing.kube import binaries
from icdc_testing.kube.kubectl import Kubectl
from icdc_testing.real_cluster.host import layout, network, packages, teardown
from icdc_testing.real_cluster.host.layout import ClusterPaths
from icdc_testing.real_cluster.host.programs import Starter
from icdc_testing.real_cluster.node import containers, control_plane, images, kubelet
from icdc_testing.real_cluster.services import (
    object_store,
    rest_catalog,
    search,
    spark_operator,
)

_STAYS = "stays"


@dataclass(frozen=True)
class Up:
    """A cluster that is up."""

    paths: ClusterPaths
    kubectl: Kubectl
    facts: dict[str, Any]


def bring_up(where: ClusterPaths, *, stays: bool, archives: Sequence[Path] = ()) -> Up:
    """Bring it up; with `stays` it is up until `down`. What a crashed one left is removed first.

    The images of the archives are loaded.

    BadSpec: there is one already. Submission, StartTimeout: a part of it does not start.
    """
    packages.ensure()
    if where.run.exists():
        if (where.run / _STAYS).exists():
            raise BadSpec(f"A cluster is up in {where.run}: use it, or take it down first.")
        teardown.take_down(where)
    if there := teardown.list_leftovers(where):
        raise Submission(
            "Another cluster, or what is left of one, is in the way: " + "; ".join(there)
        )
    where.make()
    where.locate(layout.FIRST).make()
    if stays:
        (where.run / _STAYS).touch()
    try:
        return _start(Starter(where, stays), archives)
    except BaseException:
        teardown.take_down(where)
        raise


@contextmanager
def hold_cluster_lock(where: ClusterPaths) -> Iterator[None]:
    """Wait for others on this host that bring a cluster up or down, and hold them off."""
    with jars.hold_lock(where.lock):
        yield


def _start(starter: Starter, archives: Sequence[Path]) -> Up:
    where, step = starter.paths, _Steps()
    first = where.locate(layout.FIRST)
    # Built and fetched once, in minutes, which must not eat the time of what waits for them.
    binaries.ensure_programs(binaries.NAMES)
    rest_catalog.fetch()
    network.make(where)
    # What is slow comes first or in a thread. Programs do not start in one: they would end with
    # it; OpenSearch alone does not.
    with ThreadPoolExecutor(2) as beside:
        searching = beside.submit(search.start, starter)
        store = object_store.start(starter)
        catalog = rest_catalog.start(starter)
        containers.start(starter, first)
        credentials = control_plane.make_credentials(where)
        kubectl = control_plane.start(starter, credentials)
        defining = beside.submit(spark_operator.define, kubectl)
        step("containerd and control plane")
        images.load_own(first)
        loaded = [name for archive in archives for name in images.load(first, archive)]
        step("images")
        kubelet.start(starter, credentials, kubectl)
        step("node")
        defining.result()
        spark_operator.install(starter, kubectl)
        step("spark-operator")
        facts: dict[str, Any] = {
            "kubeconfig": str(where.kubeconfig),
            "address": layout.ADDRESS,
            "scratch": str(where.scratch),
            "podImage": images.POD_IMAGE,
            "images": loaded,
            "objectStore": object_store.wait_until_ready(store),
            "catalog": rest_catalog.wait_until_ready(catalog),
            "search": searching.result(),
        }
    step("object store, catalog, OpenSearch")
    where.facts.write_text(json.dumps(facts, indent=2), encoding="utf-8")
    return Up(where, kubectl, facts)


class _Steps:
    """Says how long each step took."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, what: str) -> None:
        now = time.monotonic()
        sys.stderr.write(f"{what}: {now - self._began:.1f} s\n")
        self._began = now
