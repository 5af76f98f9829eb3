"""Where the product ends: all that leads out of it is replaced here, in this process and for good.

    replaced                                        by
    the HTTP connection of the OpenSearch client    `network.Network` of the world
    time.time, time.monotonic, time.sleep           virtual time
    threads of bulk requests and of tables          one after the other, in the process that asks
    Spark sessions, plans, lines, readers           `spark`
    the catalog's table and its tags                `lake`
    the report's file                               the pod's annotation, in the model
    the question's file                             the ConfigMap, in the model
    parsing of a pipeline that was parsed before    what it gave then

Everything else that a run or the operator's core does is the product's own code; the oracle is told
of each `Bug` that is made in it. Only a process that does nothing but simulate may import this
module, and before any module of the product.
"""

import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta, tzinfo
from random import Random
from typing import TYPE_CHECKING, Any

from icdc_testing.simulation.schedule import BEGIN, Flag

if TYPE_CHECKING:
    from icdc_testing.simulation.world import World

__all__ = ["Future", "get_world", "install", "set_world"]

_WORLDS: "list[World]" = []
_SLEEP, _MONOTONIC = time.sleep, time.monotonic
_BEGIN_SECONDS = BEGIN.timestamp()
_NOTHING = nullcontext()


def get_world() -> "World":
    """Return the world that is played now."""
    return _WORLDS[-1]


def set_world(now: "World | None") -> None:
    """Play this world from now on."""
    _WORLDS[:] = [] if now is None else [now]


def _monotonic() -> float:
    # Without a world it is the pool of processes that asks, and a clock that stands never ends it.
    return 1000.0 + _WORLDS[-1].schedule.now if _WORLDS else _MONOTONIC()


def _time() -> float:
    return _BEGIN_SECONDS + (_WORLDS[-1].schedule.now if _WORLDS else 0.0)


def _sleep(seconds: float) -> None:
    if _WORLDS:
        get_world().schedule.sleep(seconds)
    else:
        # The pool of processes waits for them when it ends.
        _SLEEP(seconds)


class _TimeOfPolls:
    """Time for whoever polls: where nothing happens meanwhile, the next poll is later."""

    monotonic = staticmethod(_monotonic)

    @staticmethod
    def sleep(seconds: float) -> None:
        schedule = get_world().schedule
        schedule.sleep(max(seconds, min(10.0, schedule.count_seconds_to_next())))


class VirtualDatetime(datetime):
    """A `datetime` whose now is the world's."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        """Return the world's time."""
        moment = BEGIN + timedelta(seconds=_WORLDS[-1].schedule.now)
        return moment if tz is UTC else moment.astimezone(tz)


def install() -> None:
    """Replace all of it."""
    # First: default arguments of the product take `time.sleep` when its modules are imported.
    vars(time).update(monotonic=_monotonic, time=_time, sleep=_sleep)
    _replace_client()
    _replace_time()
    _replace_spark()
    from icdc_testing.simulation import quick_client

    quick_client.install()
    _watch_for_bugs()


def _replace_client() -> None:
    from icdc_spark.opensearch.client import connection, target_errors, tasks  # noqa: F401
    from icdc_testing.simulation.model.network import SimulatedConnection

    vars(connection)["OpenSearchConnection"] = SimulatedConnection
    vars(tasks)["time"] = _TimeOfPolls


def _replace_time() -> None:
    from icdc_api.job.run_files import RunReport
    from icdc_spark.opensearch.bulk import partition_writer, sender, sink
    from icdc_spark.opensearch.client import retry
    from icdc_spark.opensearch.stores import dead_letters
    from icdc_spark.replication import applied, context
    from icdc_spark.replication.checks import node_check
    from icdc_spark.reporting import reporter
    from icdc_testing.simulation import spark

    for module in (applied, context, reporter, dead_letters, node_check):
        vars(module)["datetime"] = VirtualDatetime
    begin = retry.RetryDelay.__init__

    def begin_with_seed(self: Any, *arguments: Any, **keywords: Any) -> None:
        begin(self, *arguments, **{"_random": get_world().random, **keywords})

    set_attribute(retry.RetryDelay, "__init__", begin_with_seed)
    vars(sender)["Event"] = lambda: Flag(lambda: get_world().schedule)
    vars(partition_writer)["ThreadPoolExecutor"] = spark.InlinePool
    vars(sink)["TaskContext"] = _TaskContext
    set_attribute(RunReport, "write", lambda self, path: None)


def _replace_spark() -> None:
    from icdc_api.job.run_files import RunRequest
    from icdc_spark.process import pipeline_run, table_modes
    from icdc_spark.replication import batches, changelog, duplicates, export, pins, table_run
    from icdc_spark.replication.checks import new_index, table_observation
    from icdc_testing.simulation import resources, spark
    from icdc_testing.simulation.model import lake

    for module in (changelog, export, new_index, table_run, table_observation):
        for name in (
            "open_reader",
            "choose_planner",
            "plan_export",
            "merge_groups",
            "release_groups",
            "build_export_lines",
            "build_change_lines",
            "list_changed_ids",
            "count_tasks",
        ):
            if name in vars(module):
                vars(module)[name] = getattr(spark, name)
    vars(table_observation)["CachedTable"] = spark.TableCache
    vars(duplicates)["settle"] = spark.settle
    vars(pins)["tags"] = lake.Tags
    vars(batches)["read_stated_files"] = lake.read_stated_files
    vars(pipeline_run)["WorkerThreads"] = _Threads
    vars(pipeline_run)["CallWatch"] = _NoWatch
    vars(pipeline_run)["StepWatch"] = _NoStepWatch
    vars(pipeline_run)["session"] = _Sessions
    parse = resources.parse_pipeline
    set_attribute(RunRequest, "parse_pipeline", lambda request: parse(request.pipeline))
    from icdc_api.job.modes import RunMode
    from icdc_testing.simulation import questions

    vars(pipeline_run)["RunQuestions"] = questions.BroughtQuestions
    handlers: Any = table_modes.HANDLERS
    handlers[RunMode.VERIFY] = questions.verify


def _watch_for_bugs() -> None:
    from icdc_api.errors import Bug

    begin = Bug.__init__

    def begin_noted(self: Any, *arguments: Any, **keywords: Any) -> None:
        begin(self, *arguments, **keywords)
        if _WORLDS:
            get_world().oracle.check_bug(str(self))

    set_attribute(Bug, "__init__", begin_noted)


def set_attribute(kind: type, name: str, value: Any) -> None:
    """Set an attribute of a class of the product."""
    setattr(kind, name, value)


class _TaskContext:
    """Stands for Spark's: the number of the attempt is that of the process."""

    @staticmethod
    def get() -> "_TaskContext":
        return _TaskContext()

    def attemptNumber(self) -> int:  # noqa: N802  Spark's name
        return get_world().schedule.current.attempt


class _Threads:
    """Stands for WorkerThreads: the one table is followed in the driver's own process."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def run(self, jobs: Mapping[str, Any]) -> None:
        for job in jobs.values():
            job()

    def mark_stuck(self, *_: Any) -> None:
        pass


class _NoWatch:
    """Stands for CallWatch: the model of the catalog answers at once."""

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> "_NoWatch":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def call(self, *_: Any) -> AbstractContextManager[None]:
        return _NOTHING

    def build_source_unavailable(self, *_: Any) -> None:
        pass


class _NoStepWatch(_NoWatch):
    """Stands for StepWatch: the model has faults, and nothing in it hangs for ever."""

    def step(self, *_: Any) -> AbstractContextManager[None]:
        return _NOTHING

    def note(self, table: str) -> None:
        """Nothing: no step is judged."""


class _Sessions:
    """Stands for `icdc_spark.iceberg.jvm.session`."""

    @staticmethod
    def open_table_session(_: Any, catalog: str, properties: Any, mark: Any) -> Any:
        from icdc_testing.simulation.spark import OpenedSession

        return OpenedSession(mark)

    @staticmethod
    def mark_jobs(*_: Any, **__: Any) -> None:
        pass


def make_random(seed: int, purpose: str) -> Random:
    """Return choices made from a world's seed."""
    return Random(f"{seed} {purpose}")
