"""One pipeline on a cluster: read whole, its status written, the actions of `decide` carried out.

What the local runner's `LocalRuns` and state directory are to one host. Everything is read anew
for each look; nothing that is remembered is needed. Decides nothing.
"""

import functools
import importlib.metadata
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from icdc_api import naming
from icdc_api.errors import Bug
from icdc_api.runs import Failure, RunStatus
from icdc_api.status import PipelineStatus
from icdc_operator.cluster.heads.head_watch import HeadWatch
from icdc_operator.cluster.kube import errors, kinds
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.kube.errors import Conflict
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.queue import PipelineKey
from icdc_operator.cluster.runs import creation, pods, resource, seen
from icdc_operator.cluster.runs.memory import Memory
from icdc_operator.cluster.runs.seen import RunObjects
from icdc_operator.core import comparisons, deletion, schedule
from icdc_operator.core.observed import (
    Action,
    AddFinalizer,
    CreateRun,
    ForgetRun,
    Observed,
    RemoveFinalizer,
    RunPhase,
    RunSeen,
    StopRun,
)
from icdc_operator.manifests.launch import InstallSettings, Launch, PipelineRef

KILL_SECONDS = 1
"""Grace of a driver that shall end now. Not 0: then the pod would be gone from the API before its
processes are from the node, and the next run would begin beside them."""

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Observation:
    """One look at a pipeline: what `decide` needs, and the objects behind it."""

    pipeline: Resource
    """As it was read or written last, with its uid and resourceVersion."""
    observed: Observed
    found: Sequence[RunObjects] = ()

    @property
    def owner(self) -> PipelineRef:
        """The pipeline as the owner of runs."""
        metadata = self.pipeline["metadata"]
        return PipelineRef(metadata["namespace"], metadata["name"], metadata["uid"])


class ClusterAdapter:
    """The pipelines of one cluster. Raises the errors of `cluster.errors`. For one event loop.

    Without `heads` only runs look at tables.
    """

    def __init__(
        self,
        api: ClusterApi,
        settings: InstallSettings,
        *,
        heads: HeadWatch | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._settings = settings
        self._heads = heads
        self._now = now
        self._memory = Memory()

    def note_driver_pod(self, pod: Resource) -> None:
        """Takes a driver pod that a watch tells of, for its last words; never needed."""
        self._memory.note_pod(pod)

    async def observe(self, namespace: str, name: str) -> Observation | None:
        """All that belongs to the pipeline, read now; None when there is no such pipeline."""
        pipeline = await self._api.get_pipeline(namespace, name)
        if pipeline is None:
            self._memory.forget((namespace, name))
            if self._heads is not None:
                self._heads.forget(PipelineKey(namespace, name))
            return None
        # In this order: what a pod says is newer than what its SparkApplication says.
        unseen: Failure | None = None
        found: Sequence[RunObjects] = ()
        try:
            listed = await self._api.list_applications(namespace, name)
            driver_pods = await self._api.list_driver_pods(namespace, name)
        except errors.Denied as error:
            LOG.warning("runs cannot be looked at: %s", error)
            unseen = creation.refusal(error)
        else:
            for pod in driver_pods:
                self._memory.note_pod(pod)
            found = seen.group_by_attempt(name, listed, driver_pods)
        status = resource.status_of(pipeline)
        spec, problem = resource.spec_of(pipeline, self._settings)
        metadata = pipeline["metadata"]
        observed = Observed(
            namespace=namespace,
            name=name,
            generation=metadata["generation"],
            spec=spec,
            status=status,
            problem=problem,
            runs=self._runs((namespace, name), status.current_run, found),
            operator_version=_version(),
            denied=unseen or self._memory.denial((namespace, name), self._now()),
            blind=unseen is not None,
            # Something keeps a deleted pipeline from being gone: nothing new starts meanwhile.
            closing=bool(metadata.get("deletionTimestamp")),
            ask=resource.ask_of(pipeline),
            **resource.deletion_of(pipeline),
        )
        if deletion.is_active(observed) and not any(run.live for run in observed.runs):
            # Of those that live, a namespace that is being deleted lets none go on.
            ends = not await self._api.takes_objects(namespace)
            observed = replace(observed, namespace_ends=ends)
        return Observation(pipeline, self._with_heads(observed), found)

    async def save(self, observation: Observation, status: PipelineStatus) -> Observation:
        """Writes the status; Conflict when the pipeline is not as observed any more.

        NotFound when it is gone.
        """
        written = await self._api.replace_status(observation.pipeline, status.to_resource())
        observed = replace(observation.observed, status=status)
        return replace(observation, pipeline=written, observed=observed)

    async def confirm(self, observation: Observation) -> None:
        """Conflict when the pipeline is not as observed any more, or gone."""
        read = observation.pipeline["metadata"]
        present = await self._api.get_pipeline(read["namespace"], read["name"])
        if present is None or present["metadata"]["resourceVersion"] != read["resourceVersion"]:
            raise Conflict("the pipeline was written since it was read")

    async def act(self, observation: Observation, action: Action) -> None:
        """Carries out one action; harmless when it was carried out before.

        A run that cannot be created is not raised but seen at the next look: as one that Failed.
        Denied is raised, and seen at the next look as well.
        """
        key = (observation.owner.namespace, observation.owner.name)
        try:
            await self._act(observation, action)
        except errors.Denied as error:
            self._memory.deny(key, action, creation.refusal(error), self._now())
            raise
        self._memory.allow(key, action)

    async def _act(self, observation: Observation, action: Action) -> None:
        match action:
            case CreateRun():
                await self._create(observation, action)
            case StopRun(name, graceful):
                for found in _named(observation, name):
                    await self._stop(observation, found, graceful=graceful)
            case ForgetRun(name):
                await self._forget(observation, name)
            case AddFinalizer():
                await self._api.replace_finalizers(
                    observation.pipeline, [*resource.others(observation.pipeline), naming.FINALIZER]
                )
            case RemoveFinalizer(why):
                LOG.info("the finalizer %s is removed: %s", naming.FINALIZER, why)
                await self._api.replace_finalizers(
                    observation.pipeline, resource.others(observation.pipeline)
                )

    def _with_heads(self, observed: Observed) -> Observed:
        """What is known of the table heads, where they decide what comes next; waits for none."""
        if self._heads is None:
            return observed
        key = PipelineKey(observed.namespace, observed.name)
        # A comparison takes in no snapshot: what was new before it still is.
        spec, last = observed.spec, comparisons.last_replication_run(observed.status)
        if spec is None or last is None or not schedule.waits_for_heads(observed):
            follows = spec is not None and schedule.may_wait_for_heads(spec)
            (self._heads.leave if follows else self._heads.forget)(key)
            return observed
        known = self._heads.follow(key, spec, after=last.epoch)
        return replace(observed, heads=known.heads, old_heads=known.old, heads_watched=True)

    def _runs(
        self, key: tuple[str, str], current: RunStatus | None, found: Sequence[RunObjects]
    ) -> tuple[RunSeen, ...]:
        run_id = None if current is None else current.run_id
        ended = self._memory.ended_pods(key, run_id)
        runs = seen.build_runs(found, now=self._now(), ended_pods=ended)
        refusal = self._memory.refusal(key, None if current is None else current.epoch)
        if current is None or refusal is None:
            return runs
        if any((run.name, run.epoch) == (current.name, current.epoch) for run in runs):
            return runs  # somebody else could create it
        phase = RunPhase.FAILED
        return (*runs, RunSeen(current.name, current.epoch, phase, False, failure=refusal))

    async def _create(self, observation: Observation, action: CreateRun) -> None:
        spec, run = observation.observed.spec, action.run
        if spec is None:
            raise Bug(f"the run {run.name} was asked for without a spec")
        launch = Launch(
            observation.owner,
            run,
            spec,
            self._settings,
            continuous=action.continuous,
            reexport=action.reexport,
            tables=action.tables,
            ask=action.ask,
        )
        try:
            await creation.create(self._api, launch, observation.pipeline)
        except creation.REFUSED as error:
            LOG.warning("the run %s cannot be created: %s", run.name, error)
            key = (launch.owner.namespace, launch.owner.name)
            self._memory.refuse(key, run.epoch, creation.refusal(error))

    async def _stop(self, observation: Observation, found: RunObjects, *, graceful: bool) -> None:
        """Asks the driver to end by its pod, whose SparkApplication stays as a record; where there
        is no pod to ask, or no time for it, the SparkApplication goes too, so that none comes."""
        application = found.application
        if application is not None and (not graceful or not found.writers):
            # The ConfigMap first, as in `_forget`: without the SparkApplication nothing shows it.
            namespace = observation.owner.namespace
            await creation.forget_config_map(self._api, namespace, found.name)
            await self._delete(kinds.APPLICATION, application)
        for pod in found.writers:
            if pods.is_given_up(pod, self._now()):
                # Nobody at its node answers. What may still live there is fenced by its epoch.
                await self._delete(kinds.POD, pod, grace_seconds=0, again=True)
            elif graceful:
                await self._delete(kinds.POD, pod)
            else:
                shorter = pods.grace_seconds(pod) > KILL_SECONDS
                await self._delete(kinds.POD, pod, grace_seconds=KILL_SECONDS, again=shorter)

    async def _forget(self, observation: Observation, name: str) -> None:
        """The ConfigMap first: while the SparkApplication is there, this is asked for again."""
        namespace = observation.owner.namespace
        await creation.forget_config_map(self._api, namespace, name)
        for found in _named(observation, name):
            if found.writers:
                continue
            if found.application is not None:
                await self._delete(kinds.APPLICATION, found.application)
            for pod in found.pods:
                await self._delete(kinds.POD, pod)

    async def _delete(
        self,
        kind: kinds.Kind,
        target: Resource,
        *,
        grace_seconds: int | None = None,
        again: bool = False,
    ) -> None:
        """Deletes the very object; `again`: even if it is asked to end already."""
        metadata = target["metadata"]
        if metadata.get("deletionTimestamp") and not again:
            return
        await self._api.delete(
            kind,
            metadata["namespace"],
            metadata["name"],
            uid=metadata["uid"],
            grace_seconds=grace_seconds,
        )


def _named(observation: Observation, name: str) -> list[RunObjects]:
    return [found for found in observation.found if found.name == name]


@functools.cache
def _version() -> str | None:
    try:
        return importlib.metadata.version(naming.MANAGED_BY)
    except importlib.metadata.PackageNotFoundError:
        return None  # run from a checkout that is not installed
