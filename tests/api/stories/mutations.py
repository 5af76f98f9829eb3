"""Change specs field by field as users do; the same spec must end the same, whatever came before.

The comparison leaves out times, counters, names, the number of runs, and whether a run is expected
to be short, which depend on the way.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from icdc_api.spec.spark_defaults import QUICK_COMPILER
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import RunState
from icdc_operator.cluster.kube import api_errors, kinds
from icdc_operator.manifests.pods import pod_paths
from icdc_testing.kube.kstatus import judge
from icdc_testing.kube.stored_pipelines import Resource, make_minimal
from icdc_testing.operator.kills.cuts import Cut
from icdc_testing.operator.kills.stories import LONG, Story
from icdc_testing.operator.kills.trial import QUIET_SECONDS, SETTLED_SECONDS, Trial, TrialSite
from icdc_testing.operator.kills.witness import read_identity

Spec = Mapping[str, Any]

_ORDERS, _CLIENTS = ({"name": f"shop.{name}", "identifierColumns": ["id"]} for name in "oc")

BASE: Spec = {
    "tables": [_ORDERS, _CLIENTS],
    "changelog": {"pollIntervalSeconds": LONG},
    "retry": {"maxSeconds": LONG},
}
"""Two tables, and a run only where a spec asks for one."""

MUTATIONS: Mapping[str, Spec] = {
    "suspend": {"suspend": True},
    "mode": {"mode": "ExportOnly"},
    "catalog": {"catalog": {"properties": {"type": "rest", "uri": "http://other:8181"}}},
    "a table less": {"tables": [_ORDERS]},
    "a table more": {"tables": [_ORDERS, _CLIENTS, {**_ORDERS, "name": "shop.new"}]},
    "tables in another order": {"tables": [_CLIENTS, _ORDERS]},
    "columns of a table": {"tables": [{**_ORDERS, "columns": ["id", "total"]}, _CLIENTS]},
    "filter of a table": {"tables": [{**_ORDERS, "rowFilter": "id > 7"}, _CLIENTS]},
    "index of a table": {"tables": [{**_ORDERS, "index": "other"}, _CLIENTS]},
    "key of a table": {"tables": [{**_ORDERS, "identifierColumns": ["id", "at"]}, _CLIENTS]},
    "trigger": {"changelog": {"pollIntervalSeconds": LONG, "trigger": "Continuous"}},
    "on a gap": {"changelog": {"pollIntervalSeconds": LONG, "onGap": "Stop"}},
    "pins": {"changelog": {"pollIntervalSeconds": LONG, "pinSnapshots": "Never"}},
    "hosts of the sink": {"sink": {"opensearch": {"hosts": ["https://other:9200"]}}},
    "image": {"spark": {"image": "other:1"}},
    "executors": {"spark": {"executor": {"instances": 5}}},
    "memory of the driver": {"spark": {"driver": {"memory": "3g"}}},
    "dynamic allocation": {"spark": {"dynamicAllocation": {"minExecutors": 1, "maxExecutors": 3}}},
    "properties of Spark": {"spark": {"conf": {"spark.sql.shuffle.partitions": "7"}}},
    "retry": {"retry": {"maxAttempts": 2, "maxSeconds": LONG}},
    "time-outs": {"timeouts": {"startSeconds": 77, "runSeconds": LONG}},
    "history": {"history": {"successful": 1, "failed": 1}},
}
"""Each may be changed back."""

ONE_WAY: Mapping[str, Spec] = {
    "resync": {"resync": {"nonce": 3}},
    "restartNonce": {"restartNonce": 3},
}
"""Each asks for something once, and changing it back is refused."""

MISTAKES: Mapping[str, tuple[Spec, str]] = {
    "no table": ({"tables": []}, "spec.tables"),
    "a table twice": ({"tables": [_ORDERS, _ORDERS]}, "spec.tables"),
    "an index twice": ({"tables": [_ORDERS, {**_CLIENTS, "index": "shop.o"}]}, "ind"),
    "an unknown mode": ({"mode": "Everything"}, "spec.mode"),
    "ExportOnly, Continuous": (
        {"mode": "ExportOnly", "changelog": {"trigger": "Continuous"}},
        "changelog.trigger",
    ),
    "a property of ours": ({"spark": {"conf": {"spark.master": "local"}}}, "spec.spark.conf"),
    "no executor": ({"spark": {"executor": {"instances": 0}}}, "spec.spark.executor.instances"),
    "no time to start": ({"timeouts": {"startSeconds": 1}}, "spec.timeouts.startSeconds"),
    "less than its start": ({"retry": {"initialSeconds": 9, "maxSeconds": 3}}, "maxSeconds"),
    "a host that is none": ({"sink": {"opensearch": {"hosts": ["search"]}}}, "hosts"),
    "a host twice": (
        {"sink": {"opensearch": {"hosts": ["https://a:9200", "https://a:9200/"]}}},
        "hosts",
    ),
    "a template that breaks the run": (
        {"spark": {"driver": {"template": {"spec": {"restartPolicy": "Always"}}}}},
        "restartPolicy",
    ),
    "no such table to resync": ({"resync": {"nonce": 1, "tables": ["shop.x"]}}, "resync"),
}
"""Specs that are no good, and what the refusal names."""


def change(*changes: Spec) -> Spec:
    """Return the whole base spec with these fields in place of its own."""
    merged: dict[str, Any] = dict(make_minimal()["spec"])
    for spec in (BASE, *changes):
        merged |= spec
    return merged


def is_settled(generation: int) -> Callable[[PipelineStatus], bool]:
    """Return a test of whether all is done for that generation that is to be done now."""

    def is_reached(status: PipelineStatus) -> bool:
        if status.observed_generation != generation or status.current_run is not None:
            return False
        valid = status.holds(ConditionType.SPEC_VALID)
        if not valid or status.holds(ConditionType.SUSPENDED):
            return True
        last = status.last_run
        return last is not None and (last.generation, last.state) == (
            generation,
            RunState.SUCCEEDED,
        )

    return is_reached


class MutationTrial(Trial):
    """A pipeline that is given one spec after the other, each once the one before has settled."""

    def __init__(self, site: TrialSite, name: str, specs: Sequence[Spec]) -> None:
        story = Story(
            name, runs=(), retained=(), done=lambda status: True, verdicts=(), spec=specs[0]
        )
        super().__init__(site, story, Cut(), name)
        self._specs = specs
        self.endings: list[Resource] = []
        """What each spec came to."""
        self.refusals: list[str] = []
        """What the API server said against those that it did not take."""

    async def _play_user(self) -> None:
        generation = 1
        for number, spec in enumerate(self._specs):
            if number:
                generation = await self._declare(spec, generation)
            await self._wait_until(is_settled(generation))
            await self._wait_until_quiet()
            self.endings.append(await self._read_ending())
        await super()._play_user()

    async def _declare(self, spec: Spec, generation: int) -> int:
        current = await self.api.get_pipeline(self.site.namespace, self.name)
        assert current is not None
        try:
            stored = await self.api.replace({**current, "spec": dict(spec)})
        except api_errors.Invalid as error:
            self.refusals.append(error.message)
            return generation
        self.witness.note_stored(stored)
        self._notify(kinds.PIPELINE.plural, stored, False)
        return int(stored["metadata"]["generation"])

    async def _read_ending(self) -> Resource:
        pipeline = await self.api.get_pipeline(self.site.namespace, self.name)
        assert pipeline is not None
        owned = {
            kind: await self.list_owned(kind) for kind in (kinds.APPLICATION, kinds.CONFIG_MAP)
        }
        newest = max(owned[kinds.APPLICATION], key=lambda item: read_identity(item)[1])
        (request,) = [
            json.loads(item["data"][pod_paths.REQUEST_KEY])
            for item in owned[kinds.CONFIG_MAP]
            if item["metadata"]["name"] == newest["metadata"]["name"]
        ]
        status = pipeline["status"]
        compared = {
            "verdict": judge(pipeline).value,
            "phase": status["phase"],
            "summary": status["summary"]["tables"],
            "conditions": {
                condition["type"]: _read_condition(condition) for condition in status["conditions"]
            },
            "tables": [
                (table["name"], table["index"], table["state"]) for table in status["tables"]
            ],
            "failures": status.get("consecutiveFailures", 0),
            "next": "nextAttemptTime" in status,
            "application": newest["spec"],
            "request": request,
        }
        return self._anonymize(compared, read_identity(newest))

    def _anonymize(self, compared: Resource, run: tuple[str, int]) -> Resource:
        run_id, epoch = run
        text = json.dumps(compared)
        for name, word in (
            (run_id, "RUN-ID"),
            (run_id.rpartition(".")[0], "RUN"),
            (str(epoch), "0"),
            (self.name, "shop"),
            # By how long the run before took.
            (f"{QUICK_COMPILER} ", ""),
        ):
            text = text.replace(name, word)
        anonymous: Resource = json.loads(text)
        return anonymous

    async def _wait_until_quiet(self) -> None:
        clock = self.site.clock
        begun = clock.seconds
        while True:
            await asyncio.sleep(SETTLED_SECONDS)
            if self._is_idle() and clock.seconds - begun >= QUIET_SECONDS:
                return


def _read_condition(condition: Resource) -> tuple[str, str, str]:
    return condition["status"], condition["reason"], condition.get("message", "")
