"""Read one pipeline with its runs, write its status, and carry out the actions of `decide`.

The counterpart on one host is the local runner's `LocalRuns` with its state directory. Everything
is read again for each reconcile; `Memory` only adds hints. It must not decide anything.

    CreateRun    ConfigMap, then SparkApplication
    AskRun       a ConfigMap that the running driver has mounted
    StopRun      see `ending`
    ForgetRun    see `ending`
"""

import functools
import importlib.metadata
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from icdc_api import naming
from icdc_api.errors import Bug
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import Failure, RunState, RunStatus
from icdc_operator.cluster.heads.head_watch import HeadWatch
from icdc_operator.cluster.kube import api_errors
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.kube.api_errors import Conflict
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.queue import PipelineKey
from icdc_operator.cluster.runs import creation, ending, executors, resource, seen
from icdc_operator.cluster.runs.memory import Memory
from icdc_operator.cluster.runs.observation import Observation
from icdc_operator.cluster.runs.renewals import ReportRenewals
from icdc_operator.cluster.runs.seen import RunObjects
from icdc_operator.core import deletion, schedule
from icdc_operator.core.asked import comparisons
from icdc_operator.core.observed import (
    Action,
    AddFinalizer,
    AskRun,
    CreateRun,
    ForgetRun,
    Observed,
    RemoveFinalizer,
    RunPhase,
    RunSeen,
    StopRun,
)
from icdc_operator.manifests.launch import InstallSettings, Launch

LOG = logging.getLogger(__name__)


class ClusterAdapter:
    """The pipelines of one cluster. Raises the errors of `kube.api_errors`. For one event loop.

    Without `heads` the operator reads no catalog: runs poll tables.
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
        self._renewals = ReportRenewals()

    def note_driver_pod(self, pod: Resource) -> None:
        """Take in a driver pod from a watch, whose last report may be lost otherwise. A hint."""
        self._memory.note_pod(pod)

    def forget(self, key: PipelineKey) -> None:
        """Forget what is known of a pipeline that is gone."""
        self._memory.forget(key)
        self._renewals.forget(key)
        if self._heads is not None:
            self._heads.forget(key)

    async def observe(self, namespace: str, name: str) -> Observation | None:
        """Read the pipeline and all of its runs now; None if there is no such pipeline."""
        pipeline = await self._api.get_pipeline(namespace, name)
        if pipeline is None:
            return None
        unseen: Failure | None = None
        attempts: Sequence[RunObjects] = ()
        try:
            # Pods last: they are the truth about writers, so they must be the newer answer. In the
            # other order a run could start between the two and be missed.
            listed = await self._api.list_applications(namespace, name)
            driver_pods = await self._api.list_driver_pods(namespace, name)
        except api_errors.Denied as error:
            LOG.warning("the runs of this pipeline cannot be listed: %s", error)
            unseen = creation.explain_refusal(error)
        else:
            for pod in driver_pods:
                self._memory.note_pod(pod)
            attempts = seen.group_by_attempt(name, listed, driver_pods)
        status = resource.read_status(pipeline)
        spec, problem = resource.read_spec(pipeline, self._settings)
        metadata = pipeline["metadata"]
        observed = Observed(
            namespace=namespace,
            name=name,
            generation=metadata["generation"],
            spec=spec,
            status=status,
            spec_hash=resource.hash_spec(pipeline),
            problem=problem,
            status_room=resource.measure_status_room(pipeline),
            runs=await self._build_runs((namespace, name), status.current_run, attempts),
            operator_version=find_version(),
            denied=unseen or self._memory.find_denial((namespace, name), self._now()),
            uncreated=self._find_obstacle((namespace, name), status.current_run),
            blind=unseen is not None,
            # A finalizer holds a deleted pipeline: no new run starts meanwhile.
            closing=bool(metadata.get("deletionTimestamp")),
            ask=resource.read_ask(pipeline),
            **resource.read_deletion(pipeline),
        )
        if deletion.is_active(observed) and not any(run.live for run in observed.runs):
            # A namespace that is being deleted accepts no deletion run and waits for the finalizer.
            # Asked only where no run lives: a live run already shows that the namespace works.
            ends = not await self._api.takes_objects(namespace)
            observed = replace(observed, namespace_ends=ends)
        return Observation(pipeline, self._with_heads(observed), attempts)

    async def save(self, observation: Observation, status: PipelineStatus) -> Observation:
        """Write the status and return the new observation.

        Raises Conflict if the pipeline was written since it was observed, NotFound if deleted.
        """
        written = await self._api.replace_status(observation.pipeline, status.to_resource())
        observed = replace(observation.observed, status=status)
        return replace(observation, pipeline=written, observed=observed)

    async def confirm(self, observation: Observation) -> None:
        """Raise Conflict if the pipeline was written or deleted since it was observed."""
        read = observation.pipeline["metadata"]
        present = await self._api.get_pipeline(read["namespace"], read["name"])
        if present is None or present["metadata"]["resourceVersion"] != read["resourceVersion"]:
            raise Conflict("the pipeline was changed after it was read")

    async def act(self, observation: Observation, action: Action) -> None:
        """Carry out one action; harmless if it was carried out before.

        A run that cannot be created raises nothing: the next reconcile sees it as Failed. Denied is
        raised, and the next reconcile sees it as well.
        """
        key = (observation.owner.namespace, observation.owner.name)
        try:
            await self._act(observation, action)
        except api_errors.Denied as error:
            self._memory.deny(key, action, creation.explain_refusal(error), self._now())
            raise
        self._memory.allow(key, action)

    async def _act(self, observation: Observation, action: Action) -> None:
        match action:
            case CreateRun():
                await self._create(observation, action)
            case AskRun():
                await self._ask(observation, action)
            case StopRun(name, graceful):
                now = self._now()
                await ending.stop(self._api, observation, name, graceful=graceful, now=now)
            case ForgetRun(name, pods_only):
                await ending.forget(self._api, observation, name, pods_only=pods_only)
            case AddFinalizer():
                await self._api.replace_finalizers(
                    observation.pipeline,
                    [*resource.list_other_finalizers(observation.pipeline), naming.FINALIZER],
                )
            case RemoveFinalizer(why):
                LOG.info("the finalizer %s is removed: %s", naming.FINALIZER, why)
                await self._api.replace_finalizers(
                    observation.pipeline, resource.list_other_finalizers(observation.pipeline)
                )

    def _with_heads(self, observed: Observed) -> Observed:
        """Add the current snapshots that are known, if they decide what comes next. Never waits."""
        if self._heads is None:
            return observed
        key = PipelineKey(observed.namespace, observed.name)
        # By the last run that replicates: a comparison applies no snapshot, so what was new
        # before it still is.
        spec, last = observed.spec, comparisons.find_last_replication(observed.status)
        if spec is None or last is None or not schedule.waits_for_heads(observed):
            # `leave` retains since when each head is known, for the next idle time; a pipeline
            # that never waits for heads needs no memory of them.
            follows = spec is not None and schedule.may_wait_for_heads(spec)
            (self._heads.leave if follows else self._heads.forget)(key)
            return observed
        heads = self._heads.follow(key, spec, after=last.epoch)
        return replace(observed, heads=heads.heads, old_heads=heads.old, heads_watched=True)

    async def _build_runs(
        self, key: tuple[str, str], current: RunStatus | None, attempts: Sequence[RunObjects]
    ) -> tuple[RunSeen, ...]:
        run_id = None if current is None else current.run_id
        ended = self._memory.find_ended_pods(key, run_id)
        now = self._now()
        built = seen.build_runs(attempts, now=now, ended_pods=ended)
        built = await self._judge_reports(key, current, built, now)
        runs = tuple(
            replace(run, deaf=True) if self._memory.is_deaf(key, run.epoch) else run
            for run in await executors.explain_waits(self._api, key[0], built, now)
        )
        refusal = self._memory.find_refusal(key, None if current is None else current.epoch)
        if current is None or refusal is None:
            return runs
        if any((run.name, run.epoch) == (current.name, current.epoch) for run in runs):
            return runs  # another operator created it meanwhile
        # A run that was refused has no object, so this stands for it: else the record would stay
        # Planned, and each reconcile would send the same request again.
        phase = RunPhase.FAILED
        return (*runs, RunSeen(current.name, current.epoch, phase, False, failure=refusal))

    async def _judge_reports(
        self,
        key: tuple[str, str],
        current: RunStatus | None,
        runs: Sequence[RunSeen],
        now: datetime,
    ) -> tuple[RunSeen, ...]:
        """Return the runs of a pipeline; the current one with the age of its report."""
        judged = self._renewals.judge_current(key, current, runs, now)
        frozen = any(run.given_up and run.report_age is not None for run in judged)
        # The driver of the only run cannot be told apart from one whose reports get no answer, such
        # as of a webhook that is broken. A refusal is an answer: it may stay for ever.
        answered = not frozen or not isinstance(
            await self._api.try_to_create(key[0]), api_errors.Unavailable
        )
        if answered:
            return judged
        self._renewals.excuse(key, now)
        return self._renewals.judge_current(key, current, runs, now)

    def _find_obstacle(self, key: tuple[str, str], run: RunStatus | None) -> Failure | None:
        epoch = run.epoch if run is not None and run.state is RunState.PLANNED else None
        return self._memory.find_obstacle(key, epoch, self._now())

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
            linger_seconds=action.linger_seconds,
            reexport=action.reexport,
            tables=action.tables,
            max_cpu=action.max_cpu,
            ask=action.ask,
            short=action.short,
        )
        try:
            await creation.create(self._api, launch, observation.pipeline)
        except creation.REFUSED as error:
            LOG.warning("the run %s cannot be created: %s", run.name, error)
            key = (launch.owner.namespace, launch.owner.name)
            self._memory.refuse(key, run.epoch, creation.explain_refusal(error))
        except api_errors.Unavailable as error:
            # Such as of a webhook that does not answer: the queue tries again.
            key = (launch.owner.namespace, launch.owner.name)
            failure = creation.explain_delay(error)
            self._memory.note_obstacle(key, run.epoch, failure, self._now())
            raise

    async def _ask(self, observation: Observation, action: AskRun) -> None:
        spec, run = observation.observed.spec, action.run
        if spec is None:
            raise Bug(f"the run {run.name} was to be asked something without a spec")
        launch = Launch(observation.owner, run, spec, self._settings)
        try:
            await creation.ask(self._api, launch, action.question)
        except creation.REFUSED as error:
            # Such as a quota, or the name is somebody else's: a run of its own answers instead.
            LOG.warning("the run %s cannot be asked: %s", run.name, error)
            self._memory.note_deaf((launch.owner.namespace, launch.owner.name), run.epoch)


@functools.cache
def find_version() -> str | None:
    """Return the version of the operator; None where it is not installed."""
    try:
        return importlib.metadata.version(naming.MANAGED_BY)
    except importlib.metadata.PackageNotFoundError:
        return None  # run from a checkout that is not installed
