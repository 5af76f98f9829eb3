"""Runs that cannot start, all at once: each status says why, and each recovers when mended."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from icdc_testing.kube.charts import gitops
from icdc_testing.kube.kstatus import Verdict
from icdc_testing.real_cluster.services.spark_operator import QUICK_JVM
from icdc_testing.real_cluster.shop import SMALL, Resource, Shop, make_rows

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

START_SECONDS = 45
LATER_SECONDS = 400
REPORTED_SECONDS = 600.0
RETRY = {"maxAttempts": 30, "initialSeconds": 1, "maxSeconds": 5}
MISSING = "iceberg-cdc-operator/missing:1"


def make_tight(role: str) -> dict[str, str]:
    """Return settings with which the JVM of driver or executors is killed as it starts."""
    return {
        **SMALL,
        # The heap as a whole is taken at once, and leaves no room for the rest of the JVM.
        f"spark.{role}.extraJavaOptions": f"{QUICK_JVM} -Xms512m -XX:+AlwaysPreTouch",
        f"spark.{role}.memoryOverhead": "16m",
    }


@dataclass(frozen=True)
class StartFailure:
    """What is wrong with the spec, what the status must say, and what mends it."""

    wrong: Resource
    failure_class: str
    words: tuple[str, ...]
    mended: Resource
    starts: bool = False
    """True if the driver starts, which takes longer than the others are given."""

    @property
    def start_seconds(self) -> int:
        """What the pipeline has as `timeouts.startSeconds` before it is mended."""
        return LATER_SECONDS if self.starts else START_SECONDS

    def is_said(self, status: Resource) -> bool:
        """True once a run has failed so, or the active one says what it waits for."""
        runs = [status.get("currentRun"), status.get("lastRun"), *status.get("recentRuns", [])]
        failures = [run["failure"] for run in runs if run and run.get("failure")]
        texts = [one["message"] for one in failures if one["class"] == self.failure_class]
        if self.starts:
            conditions = {one["type"]: one for one in status.get("conditions", [])}
            texts.append(conditions.get("RunActive", {}).get("message", ""))
        return any(all(word in text for word in self.words) for text in texts)


def make_spark(**fields: Any) -> Resource:
    """Fields of `spec.spark` that are laid over those of the shop."""
    return {"spark": fields}


CASES = {
    "image": StartFailure(
        make_spark(image=MISSING), "ImagePull", (MISSING,), make_spark(image=None)
    ),
    "room": StartFailure(
        make_spark(conf={**SMALL, "spark.kubernetes.driver.request.cores": "64"}),
        "Unschedulable",
        ("Insufficient cpu",),
        make_spark(conf={"spark.kubernetes.driver.request.cores": "100m"}),
    ),
    "room for executors": StartFailure(
        make_spark(conf={**SMALL, "spark.kubernetes.executor.request.cores": "64"}),
        "Unschedulable",
        ("the run waits for executors", "-exec-1", "Insufficient cpu"),
        make_spark(conf={"spark.kubernetes.executor.request.cores": "100m"}),
        starts=True,
    ),
    "memory of executors": StartFailure(
        make_spark(conf=make_tight("executor")),
        "StartTimeout",
        ("before they reached", "again and again"),
        make_spark(conf={"spark.executor.memoryOverhead": "384m"}),
        starts=True,
    ),
    "secret": StartFailure(
        {"sink": {"opensearch": {"credentialsFrom": {"secretRef": {"name": "not-there"}}}}},
        "StartTimeout",
        ("not-there",),
        {"sink": {"opensearch": {"credentialsFrom": None}}},
    ),
    "account": StartFailure(
        make_spark(driver={"serviceAccount": "nobody"}),
        "Submission",
        ("nobody",),
        make_spark(driver={"serviceAccount": "icdc-spark"}),
    ),
    "memory": StartFailure(
        make_spark(conf=make_tight("driver")),
        "OutOfMemory",
        ("spec.spark.driver",),
        make_spark(conf={"spark.driver.memoryOverhead": "384m"}),
    ),
}


def merge_patch(base: Any, more: Any) -> Any:
    """As a JSON merge patch."""
    if not isinstance(base, dict) or not isinstance(more, dict):
        return more
    return {**base, **{key: merge_patch(base.get(key), value) for key, value in more.items()}}


def test_a_run_that_cannot_start_says_why_and_recovers(shop: Callable[..., Shop]) -> None:
    sites = {name: shop(name.replace(" ", "-"), "faults") for name in CASES}
    tables = {name: site.create_table("small", make_rows(1, 20)) for name, site in sites.items()}
    for name, site in sites.items():
        resource = site.make_resource(
            [site.make_entry("small", "id")],
            retry=RETRY,
            timeouts={"startSeconds": CASES[name].start_seconds},
        )
        resource["spec"] = merge_patch(resource["spec"], CASES[name].wrong)
        site.apply(resource)
    for name, site in sites.items():
        case = CASES[name]
        what = f"{name}: {case.failure_class} {case.words}"
        site.wait_until(case.is_said, what, REPORTED_SECONDS)
        assert gitops.check_agreement(site.read_pipeline()) in (Verdict.IN_PROGRESS, Verdict.FAILED)
        # All of them now start at once, on few cores.
        site.patch(**case.mended, timeouts={"startSeconds": LATER_SECONDS})
    for name, site in sites.items():
        site.wait_until_applied(tables[name])
        site.assert_equal(tables[name], "id")
