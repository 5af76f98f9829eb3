"""Play spark-operator, the kubelet and the driver: write what they would write.

Objects, labels, annotations and writes are real; only their writer is played. Level-based like the
real ones: each step lists what exists and takes each run one step on, whatever happened to the
operator meanwhile. Only a driver has memory, as a process does.

    SparkApplication created     a pod after one step, state SUBMITTED
    pod, request mounted         the driver starts and reports by its course (`played_driver`)
    pod deleted                  the driver ends within its grace period
    ConfigMap missing            the pod waits for its volumes, as the real kubelet's does
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from icdc_api.job import report_text
from icdc_api.job.run_files import RunReport, RunRequest
from icdc_operator.cluster.kube import api_errors, kinds
from icdc_operator.cluster.kube.api import MERGE_PATCH, ClusterApi
from icdc_operator.cluster.kube.kinds import Kind, Resource
from icdc_operator.cluster.kube.transport import JSON, Transport
from icdc_operator.cluster.runs import applications, pods
from icdc_operator.manifests.pods import pod_paths
from icdc_testing.operator.adapter.played_driver import Course, PlayedDriver
from icdc_testing.operator.adapter.stepping import DRIVER, make_driver_pod
from icdc_testing.operator.kills.witness import Witness, get_name, read_identity

STEP_SECONDS = 1.0113
"""Between two steps of a run."""

_ENDED = ("COMPLETED", "FAILED")

Notify = Callable[[str, Resource, bool], None]
"""Plays an event of a watch: plural of the kind, the object, and whether it was deleted."""


@dataclass
class Player:
    """Plays for one pipeline. `courses` names runs by their names without that of the pipeline."""

    api: ClusterApi
    transport: Transport
    namespace: str
    name: str
    now: Callable[[], datetime]
    notify: Notify
    witness: Witness
    courses: Mapping[str, Course]
    step_seconds: float = STEP_SECONDS
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _drivers: dict[str, PlayedDriver] = field(default_factory=dict)
    _submitting: dict[str, float] = field(default_factory=dict)

    def wake(self) -> None:
        """Take the next step soon: something was written."""
        self._woken.set()

    async def run(self) -> None:
        """Play until cancelled."""
        while True:
            self._woken.clear()
            busy = await self.take_step()
            try:
                async with asyncio.timeout(self.step_seconds if busy else None):
                    await self._woken.wait()
            except TimeoutError:
                continue
            # What is written together is seen together.
            await asyncio.sleep(self.step_seconds / 4)

    async def take_step(self) -> bool:
        """Take all runs one step on; return whether any of them is active."""
        listed = await self.api.list_applications(self.namespace, self.name)
        drivers = await self.api.list_driver_pods(self.namespace, self.name)
        by_run = {read_identity(pod)[0]: pod for pod in drivers}
        self.witness.note_writers({run for run, pod in by_run.items() if pods.may_write(pod)})
        existing = {read_identity(application)[0] for application in listed} | set(by_run)
        for run_id in {*self._submitting, *self._drivers} - existing:
            self._forget(run_id)
        busy = False
        for application in listed:
            pod = by_run.pop(read_identity(application)[0], None)
            if pod is None:
                busy |= await self._play_without_pod(application)
            else:
                busy |= await self._play_with_pod(pod, application)
        for pod in by_run.values():
            busy |= await self._play_with_pod(pod, None)
        return busy

    async def _play_without_pod(self, application: Resource) -> bool:
        run_id, _ = read_identity(application)
        state = applications.get_state(application)
        if application["metadata"].get("deletionTimestamp") or state in _ENDED:
            return False
        if state:
            await self._say(application, "FAILED", "driver pod not found")
            return False
        due = self._submitting.setdefault(run_id, _read_time() + self.step_seconds)
        if _read_time() >= due:
            # spark-submit makes the pod, and then its caller notes that it was called.
            self.witness.note_submission(run_id)
            pod = await self._write(
                "POST",
                kinds.POD,
                kinds.POD.build_path(self.namespace),
                make_driver_pod(application),
            )
            self.notify(kinds.POD.plural, pod, False)
            await self._say(application, "SUBMITTED")
        return True

    async def _play_with_pod(self, pod: Resource, application: Resource | None) -> bool:
        run_id, _ = read_identity(pod)
        driver = self._drivers.get(run_id)
        if not pods.may_write(pod):
            self._forget(run_id)
            if pods.is_terminating(pod):
                await self._remove(pod)
            elif application is not None and applications.get_state(application) not in _ENDED:
                await self._conclude(application, good=pod["status"]["phase"] == "Succeeded")
            return False
        if pods.is_terminating(pod):
            await self._stop(pod, driver)
        elif driver is None:
            return await self._start(pod, application)
        elif _read_time() >= driver.due:
            last = driver.work()
            if last is None:
                return False
            await self._end(pod, driver, last)
        return True

    async def _start(self, pod: Resource, application: Resource | None) -> bool:
        """Start the driver as the kubelet does, once it can mount the request."""
        run_id, epoch = read_identity(pod)
        course = self.courses.get(get_name(run_id).removeprefix(f"{self.name}-"), Course.WELL)
        mounted = await self.api.get(kinds.CONFIG_MAP, self.namespace, get_name(run_id))
        if mounted is None or course is Course.STUCK:
            return mounted is None
        request = RunRequest.model_validate_json(mounted["data"][pod_paths.REQUEST_KEY])
        self.witness.note_driver(run_id, epoch, request)
        due = _read_time() + self.step_seconds
        driver = PlayedDriver(request, course, self.witness.applied, self.now, self.now(), due)
        self._drivers[run_id] = driver
        await self._report(pod, driver.make_report())
        await self._write_container(
            pod, "Running", {"running": {"startedAt": _format_moment(self.now())}}
        )
        if application is not None and applications.get_state(application) == "SUBMITTED":
            await self._say(application, "RUNNING")
        return True

    async def _stop(self, pod: Resource, driver: PlayedDriver | None) -> None:
        """Ask the driver to end: it says what it did, unless it has no time for that."""
        if driver is not None and pods.get_grace_seconds(pod) > self.step_seconds:
            await self._end(pod, driver, driver.make_last_report(None))
        await self._remove(pod)

    async def _end(self, pod: Resource, driver: PlayedDriver, last: RunReport) -> None:
        good = last.outcome is None
        await self._report(pod, last)
        state = {
            "exitCode": 0 if good else 1,
            "reason": "Completed" if good else "Error",
            "message": report_text.to_termination_message(last),
            "startedAt": _format_moment(driver.begun),
            "finishedAt": _format_moment(self.now()),
        }
        await self._write_container(pod, "Succeeded" if good else "Failed", {"terminated": state})
        self._forget(last.run_id)

    async def _conclude(self, application: Resource, *, good: bool) -> None:
        failed = "driver container failed with ExitCode: 1, Reason: Error"
        await self._say(application, *(("COMPLETED", "") if good else ("FAILED", failed)))

    def _forget(self, run_id: str) -> None:
        self._drivers.pop(run_id, None)
        self._submitting.pop(run_id, None)
        self.witness.note_end(run_id)

    async def _say(self, application: Resource, state: str, message: str = "") -> None:
        application_state = {"state": state, "errorMessage": message}
        status = {
            "applicationState": application_state,
            "lastSubmissionAttemptTime": _format_moment(self.now()),
        }
        await self._patch(kinds.APPLICATION, application, {"status": status}, "status")

    async def _write_container(self, pod: Resource, phase: str, state: Resource) -> None:
        container = {"name": DRIVER, "image": "spark", "imageID": "", "ready": False}
        container |= {"restartCount": 0, "state": state}
        status = {"phase": phase, "containerStatuses": [container]}
        await self._patch(kinds.POD, pod, {"status": status}, "status")

    async def _report(self, pod: Resource, report: RunReport) -> None:
        notes = {report_text.ANNOTATION_REPORT: report_text.to_annotation(report)}
        await self._patch(kinds.POD, pod, {"metadata": {"annotations": notes}})

    async def _patch(self, kind: Kind, target: Resource, patch: Resource, below: str = "") -> None:
        """Patch that very object; nothing to do if somebody deleted it meanwhile."""
        metadata = {**patch.get("metadata", {}), "uid": target["metadata"]["uid"]}
        path = kind.build_path(self.namespace, target["metadata"]["name"], below=below)
        try:
            made = await self._write("PATCH", kind, path, {**patch, "metadata": metadata})
        except (api_errors.NotFound, api_errors.Conflict):
            return
        self.notify(kind.plural, made, False)

    async def _remove(self, pod: Resource) -> None:
        """Say as the kubelet that nothing of the pod is left on its node."""
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        await self.api.delete(kinds.POD, self.namespace, name, uid=uid, grace_seconds=0)
        self._forget(read_identity(pod)[0])
        self.notify(kinds.POD.plural, pod, True)

    async def _write(self, method: str, kind: Kind, path: str, body: Resource) -> Resource:
        content = MERGE_PATCH if method == "PATCH" else JSON
        return await self.transport.ask(
            method.lower(), kind.plural, method=method, path=path, body=body, content=content
        )


def _read_time() -> float:
    return asyncio.get_running_loop().time()


def _format_moment(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
