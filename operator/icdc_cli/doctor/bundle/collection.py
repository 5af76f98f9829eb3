"""Collect what an issue about a pipeline needs, with the rights of whoever calls.

    versions.yaml                   icdc, Python, Kubernetes, the images of both operators
    findings.txt                    what icdc doctor says
    pipelines/shop.yaml             spec and status
    events.txt                      of the pipelines, the oldest first
    runs/shop/….yaml, ….log         SparkApplications, drivers' pods and their last lines
    operator/….log                  the last lines of the operator
    missing.txt                     what could not be read, and why

What may be a secret is taken out of every file, see `masking`.
"""

import platform
from collections.abc import Awaitable, Iterator
from typing import Any, TypeVar

import yaml

from icdc_api.errors import BadSpec
from icdc_cli.cluster import logs
from icdc_cli.cluster.session import Target
from icdc_cli.doctor import findings
from icdc_cli.doctor.bundle.masking import Masker
from icdc_cli.doctor.cluster import cluster_findings, cluster_reading, pod_needs
from icdc_cli.doctor.cluster.cluster_facts import ClusterFacts, Listed
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.api_errors import ClusterError, Unavailable
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.manifests.pods.roles import Role

TAIL_LINES = 2000
"""Lines of each log."""
MAX_DRIVERS = 3
"""Drivers of a pipeline whose logs are read, the youngest: a pipeline retains up to eight runs."""
_OPERATOR_CONTAINER = "operator"

Value = TypeVar("Value")
Files = dict[str, str]
"""Texts by their paths in the bundle."""


async def collect(target: Target) -> Files:
    """Return the files. BadSpec for a NAME of which there is no pipeline; Unavailable for a server
    that does not answer."""
    facts = await cluster_reading.read_cluster(target)
    if isinstance(facts.version, Unavailable):
        raise facts.version
    collector = Collector(target, facts)
    await collector.collect_all()
    return collector.build_files()


class Collector:
    """Reads one bundle."""

    def __init__(self, target: Target, facts: ClusterFacts) -> None:
        self._api, self._facts = target.api, facts
        self._masker = Masker()
        self._texts: Files = {}
        self._objects: dict[str, Any] = {}
        self._missing: list[str] = []

    async def collect_all(self) -> None:
        """Read everything; what cannot be read is noted."""
        facts = self._facts
        self._objects["versions.yaml"] = build_versions(facts)
        self._texts["findings.txt"] = findings.format_findings(
            cluster_findings.list_findings(facts)
        )
        names = []
        if isinstance(facts.pipelines, ClusterError):
            self._missing.append(f"pipelines: {facts.pipelines.message}")
        else:
            for pipeline in facts.pipelines:
                names.append(pipeline.name)
                self._objects[f"pipelines/{pipeline.name}.yaml"] = pipeline.resource
                await self._collect_runs(pipeline.name)
        # After the objects that name the Secrets.
        await self._learn_secrets()
        await self._collect_events(names)
        await self._collect_operators()

    def build_files(self) -> Files:
        """Return the texts of all files, without what may be a secret."""
        # All objects first: what is masked in one of them is then removed from every text.
        masked = {path: self._masker.mask_object(value) for path, value in self._objects.items()}
        texts = dict(self._texts)
        if self._missing:
            texts["missing.txt"] = "\n".join(self._missing)
        files = {path: self._masker.mask_text(text) for path, text in texts.items()}
        for path, value in masked.items():
            # Before it is rendered: YAML folds long texts, and a value may stand on two lines.
            files[path] = yaml.safe_dump(
                self._masker.mask_texts(value), sort_keys=False, allow_unicode=True, width=120
            )
        return {path: text.rstrip("\n") + "\n" for path, text in sorted(files.items())}

    async def _learn_secrets(self) -> None:
        """Read the Secrets that any object refers to: their values must stand in no text."""
        for name in sorted(set(pod_needs.list_all_secrets(list(self._objects.values())))):
            reading = self._api.get(kinds.SECRET, self._facts.namespace, name)
            secret = await self._try(f"Secret {name} (its values were not searched for)", reading)
            self._masker.learn_secret(kinds.decode_secret(secret or {}))

    async def _collect_runs(self, pipeline: str) -> None:
        namespace, folder = self._facts.namespace, f"runs/{pipeline}"
        applications = await self._try(
            f"SparkApplications of {pipeline}", self._api.list_applications(namespace, pipeline)
        )
        for application in applications or ():
            name = application["metadata"]["name"]
            self._objects[f"{folder}/{name}.yaml"] = application
        pods = await self._try(
            f"drivers of {pipeline}", self._api.list_driver_pods(namespace, pipeline)
        )
        for pod in logs.sort_by_age(pods or [])[-MAX_DRIVERS:]:
            name = pod["metadata"]["name"]
            self._objects[f"{folder}/{name}.pod.yaml"] = trim_pod(pod)
            await self._collect_log(f"{folder}/{name}.log", pod, Role.DRIVER.container)

    async def _collect_events(self, pipelines: list[str]) -> None:
        # All of them: a field selector takes one name, and Events are of runs and pods as well.
        listed = await self._try(
            "events", self._api.list_objects(kinds.EVENT, self._facts.namespace)
        )
        lines = [line for event in listed or () for line in format_event(event, pipelines)]
        # A line begins with its time, so sorted texts are in the order in which things happened.
        self._texts["events.txt"] = "\n".join(sorted(lines))

    async def _collect_operators(self) -> None:
        pods = self._facts.operator_pods
        if not isinstance(pods, Listed):
            self._missing.append(f"pods of the operator: {pods.message}")
            return
        for pod in pods.items:
            name = pod["metadata"]["name"]
            self._objects[f"operator/{name}.pod.yaml"] = trim_pod(pod)
            await self._collect_log(f"operator/{name}.log", pod, _OPERATOR_CONTAINER)

    async def _collect_log(self, path: str, pod: Resource, container: str) -> None:
        metadata = pod["metadata"]
        reading = self._api.read_log(
            metadata["namespace"], metadata["name"], TAIL_LINES, container=container
        )
        log = await self._try(path, reading)
        if log is not None:
            self._texts[path] = log

    async def _try(self, what: str, reading: Awaitable[Value]) -> Value | None:
        try:
            return await reading
        # One thing that may not be read must not cost the whole bundle.
        except ClusterError as error:
            self._missing.append(f"{what}: {error.message}")
            return None


def build_versions(facts: ClusterFacts) -> dict[str, Any]:
    """Return what is installed in which version."""

    def list_images(listed: Listed | ClusterError) -> list[str]:
        items = listed.items if isinstance(listed, Listed) else ()
        return sorted(
            str(container.get("image"))
            for item in items
            for container in item["spec"]["template"]["spec"]["containers"]
        )

    invalid = (
        []
        if isinstance(facts.pipelines, ClusterError)
        else [pipeline.name for pipeline in facts.pipelines if isinstance(pipeline.spec, BadSpec)]
    )
    return {
        "icdc": facts.client_version,
        "python": platform.python_version(),
        "kubernetes": facts.version.get("gitVersion") if isinstance(facts.version, dict) else None,
        "operatorImages": list_images(facts.operators),
        "sparkOperatorImages": list_images(facts.spark_operators),
        "pipelinesWithAnInvalidSpec": invalid,
    }


def trim_pod(pod: Resource) -> Resource:
    """Return what says how a pod does: without environment, arguments and annotations."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    return {
        "metadata": {
            key: metadata[key]
            for key in ("name", "namespace", "labels", "creationTimestamp", "deletionTimestamp")
            if key in metadata
        },
        "spec": {
            "nodeName": spec.get("nodeName"),
            "containers": [
                {key: container.get(key) for key in ("name", "image", "resources")}
                for container in spec.get("containers") or ()
            ],
        },
        "status": pod.get("status"),
    }


def format_event(event: Resource, pipelines: list[str]) -> Iterator[str]:
    """Yield an Event as a line, if it is about one of the pipelines or an object of its runs."""
    about = event.get("regarding") or {}
    name = str(about.get("name", ""))
    # Runs and their pods are named after their pipeline.
    if not any(name == pipeline or name.startswith(f"{pipeline}-") for pipeline in pipelines):
        return
    # Events that are written by the older API, as the kubelet's are, have no eventTime.
    at = event.get("eventTime") or event.get("deprecatedLastTimestamp") or ""
    note = " ".join(str(event.get("note") or "").split())
    yield f"{at} {event.get('type')} {event.get('reason')} {about.get('kind')}/{name}: {note}"
