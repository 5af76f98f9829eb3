"""One world: all that is real, all that is modelled, and what befalls them, from one integer."""

import json
from collections.abc import Mapping
from typing import Any

from icdc_api.status.runs import ResyncMode
from icdc_operator.core.asked import comparisons, resyncs
from icdc_testing.simulation import border
from icdc_testing.simulation.befalling import hands
from icdc_testing.simulation.befalling.events import ACTS, WorldEvent
from icdc_testing.simulation.control import SimulatedCluster, SimulatedOperator
from icdc_testing.simulation.model.lake import TABLE, SimulatedLake
from icdc_testing.simulation.model.network import Network
from icdc_testing.simulation.model.stored_index import StoredIndex
from icdc_testing.simulation.model.target import Answer, ModelTarget
from icdc_testing.simulation.oracle import (
    ALIAS,
    STATE,
    BrokenPromiseError,
    Oracle,
    expect_documents,
)
from icdc_testing.simulation.schedule import PlayedProcess, Schedule

FIRST_ROWS = 4
QUIET_SECONDS = 3 * 3600.0
"""Time to converge after the last fault; the longest backoff of the product is ten minutes."""
IDLE_SECONDS = 45.0
IDLE_STEPS = 12
"""Where so few steps are made in IDLE_SECONDS, the next event comes."""
REST_SECONDS = 30.0
"""Seconds between two looks whether the world has come to rest."""
MAX_COPIES = 6


class World:
    """One world; `play` may be called once."""

    def __init__(self, seed: int, events: list[WorldEvent], *, story: bool = False) -> None:
        self.seed = seed
        self.random = border.make_random(seed, "world")
        self.schedule = Schedule()
        self.lake = SimulatedLake(border.make_random(seed, "lake"))
        self.target = ModelTarget(lambda: self.schedule.now)
        self.network = Network(self)
        self.oracle = Oracle(self)
        self.cluster = SimulatedCluster(self, _make_resource(seed))
        self.operator = SimulatedOperator(self)
        self.steps = 0
        self.ambushes: list[float] = []
        """Other hands that wait for an export."""
        self.state_copies: list[StoredIndex] = []
        self.index_copies: dict[str, list[StoredIndex]] = {}
        self.export_asked_at: int | None = None
        """The number of exports when one was asked for that must come; None where none was."""
        self.lines: list[str] = []
        """The story so far."""
        self._tells = story
        self._events = events
        self._next = 0
        self._steps_before = 0
        self._rest_until: float | None = None
        self._helped = False
        self._problem: str | None = None

    def play(self) -> str | None:
        """Play all events and let the world come to rest; return what is broken, or None."""
        border.set_world(self)
        try:
            rows = {key: 10 + key for key in range(FIRST_ROWS)}
            self.lake.commit(rows, 0.0, "append")
            self.schedule.call_later(0.0, self.operator.wake)
            self.schedule.call_later(IDLE_SECONDS, self._go_on)
            self.schedule.run()
            return self._problem
        except BrokenPromiseError as broken:
            return str(broken)
        finally:
            self.schedule.close()
            border.set_world(None)

    def log(self, line: str) -> None:
        """Add a line to the story."""
        if self._tells:
            self.lines.append(f"{self.schedule.now:9.2f} s  {line}")

    def tick(self) -> None:
        """Count one step, and let happen what is due."""
        self.steps += 1
        while self._next < len(self._events) and self._events[self._next].step <= self.steps:
            self._fire()

    def apply(
        self,
        who: str,
        method: str,
        path: str,
        params: Mapping[str, Any],
        body: Any,
        *,
        is_late: bool,
    ) -> Answer:
        """Let the target handle a request of the product, and check what must hold.

        A late one is from a process that was stopped since it asked whether it may send it: it can
        move the alias after the run that replaced it, and the next run moves the alias back.
        """
        if method == "DELETE" and path.strip("/") in self.target.indices:
            self.oracle.check_deleted(path.strip("/"), is_late=is_late)
        if method in ("GET", "HEAD"):
            return self.target.handle(method, path, params, body)
        before = set(self.target.find_aliased(ALIAS))
        answer = self.target.handle(method, path, params, body)
        if self._tells and not path.endswith(("_refresh", "_count", "_search")):
            self.log(f"{who}: {method} {path} → {answer[0]}{_describe_detail(answer, body)}")
        for name in set(self.target.find_aliased(ALIAS)) - before if not is_late else ():
            self.oracle.check_served(self.target.indices[name])
        if self.ambushes and path.endswith("/_bulk"):
            hands.spring_ambush(self)
        self._copy(path)
        self.oracle.check()
        return answer

    def kill_driver(self, driver: PlayedProcess, *, task_after: float = 0.0) -> None:
        """Kill a driver at once, and the task that it waits for after some seconds."""
        self.schedule.kill(driver, task_too=task_after == 0.0)
        if task_after:
            self.schedule.call_later(task_after, lambda: self.schedule.kill(driver))
        self.cluster.notify()

    def expect_export(self) -> None:
        """Remember that an export was asked for, and must come."""
        self.export_asked_at = self.oracle.exports
        self.owe_export("asked for")

    def owe_export(self, why: str) -> None:
        """Remember why an export may come."""
        self.oracle.due[why] = self.schedule.now

    def find_divergence(self) -> str | None:
        """Return why the index does not equal the table, at rest; None if it does."""
        state = self.oracle.read_state()
        if state is None or state["applied"] is None or state["intent"] is not None:
            return "nothing is applied, or a batch is open"
        head = None if self.lake.head is None else str(self.lake.head)
        if state["applied"]["snapshotId"] != head:
            return f"snapshot {state['applied']['snapshotId']} is applied, and {head} is current"
        pointing = self.target.find_aliased(ALIAS)
        if set(pointing) != {state["index"]}:
            return f"readers see {sorted(pointing)}, not {state['index']}"
        index = self.target.indices[state["index"]]
        rows = expect_documents(self._read_head_rows())
        there = {key: document.source.get("value") for key, document in index.documents.items()}
        skipped = index.touched | index.unjudged
        wrong = {k for k in {*rows, *there} - skipped if rows.get(k) != there.get(k)}
        if wrong:
            return f"{index.name} differs from the table under {sorted(wrong)}"
        head_rows = self._read_head_rows()
        refused = {f"k{key}" for key, value in head_rows.items() if value < 0}
        dead_letters = self.target.indices.get(f"{ALIAS}-dead-letters")
        stored = set(dead_letters.documents if dead_letters else ())
        skipped |= dead_letters.unjudged if dead_letters else set()
        if self.oracle.is_rolled_back:
            # Those of rows that were deleted meanwhile stay until a replay, and a row that only the
            # earlier index had refused has none until it changes.
            stored -= {key for key in stored if int(key[1:]) not in head_rows}
            before = self.oracle.refused_before.items()
            skipped |= {f"k{key}" for key, value in before if head_rows.get(key) == value}
        if stored - skipped != refused - skipped:
            return f"{sorted(refused)} are refused, and there are other dead letters"
        if self.export_asked_at is not None and self.oracle.exports <= self.export_asked_at:
            return "the export that was asked for has not come"
        status, spec = self.cluster.status, self.cluster.spec
        request = resyncs.find_last_request(status, spec)
        if request is not None and request.mode is ResyncMode.ROLLBACK:
            # Without an id it may have been made before the status was lost.
            is_owed = request.id is not None and state["resyncId"] != request.id
            if is_owed or resyncs.is_new(status, spec):
                return "the rollback that was asked for has not been made"
        return comparisons.describe_pending(status, spec)

    def _read_head_rows(self) -> Mapping[int, int]:
        return self.lake.rows[self.lake.head] if self.lake.head is not None else {}

    def _go_on(self) -> None:
        """Play the next event, or see whether the world has come to rest."""
        wait = REST_SECONDS
        if self._next < len(self._events):
            if self.steps - self._steps_before < IDLE_STEPS:
                self._fire()
            self._steps_before, wait = self.steps, IDLE_SECONDS
        elif self._rest_until is None:
            self._begin_rest()
        else:
            self._judge_rest(self._rest_until)
        self.schedule.call_later(wait, self._go_on)

    def _begin_rest(self) -> None:
        self.network.armed.clear()
        self.ambushes.clear()
        self.operator.crash_at = self.operator.stale = None
        self._rest_until = self.schedule.now + QUIET_SECONDS
        # What befell the target is noticed by the next run, and a commit brings one.
        self.lake.commit({0: 7777}, self.schedule.now, "overwrite")
        self.cluster.notify()

    def _judge_rest(self, until: float) -> None:
        problem = self.find_divergence()
        if problem is None and not self.target.tasks:
            self.schedule.finish()
        elif self.schedule.now > until:
            if self._helped or not self._needs_person():
                self._problem = f"no rest: {problem}; {self._explain()}"
                self.schedule.finish()
            self._helped, self._rest_until = True, self.schedule.now + QUIET_SECONDS
            ACTS["ask for an export"](self, 0.0)

    def _needs_person(self) -> bool:
        """Return whether the table waits for what only a person can know: then one asks again."""
        tables = self.cluster.status.tables
        return any(table.state == "Stalled" for table in tables)

    def _explain(self) -> str:
        status = self.cluster.status
        texts = [f"{table.state} {table.reason}: {table.message}" for table in status.tables]
        last = status.last_run
        failure = last.failure if last else None
        return "; ".join([*texts, str(failure.message) if failure else "no failure"])

    def _fire(self) -> None:
        event = self._events[self._next]
        self._next += 1
        self.log(f"* {event}")
        ACTS[event.kind](self, event.share)

    def _copy(self, path: str) -> None:
        """Take a snapshot now and then, which other hands may restore."""
        if self.random.random() > 0.15:
            return
        name = path.strip("/").partition("/")[0]
        index = self.target.indices.get(name)
        if index is None:
            return
        copies = self.state_copies if name == STATE else self.index_copies.setdefault(name, [])
        if len(copies) < MAX_COPIES:
            copies.append(index.copy())


def _describe_detail(answer: Answer, body: Any) -> str:
    """Return what a line of the story says about a request: outcomes, or the document's state."""
    items = answer[1].get("items")
    if items is not None:
        outcomes = [outcome for item in items[1:] for outcome in item.items()]
        return " " + ", ".join(f"{kind} {result['status']}" for kind, result in outcomes)
    text = str(answer[1].get("error", ""))[:80]
    content = json.loads(body) if body else {}
    if "intent" not in content:
        return f" {text}"
    applied, intent = content["applied"], content["intent"]
    text += f" epoch {content['owner']['epoch']}"
    if applied:
        text += f" applied {applied['snapshotId']}"
    if intent:
        text += f" {intent['kind']} {intent['ordinal']} {intent['index']} to {intent['to']}"
    return f" {text}"


def _make_resource(seed: int) -> dict[str, Any]:
    random = border.make_random(seed, "spec")
    changelog: dict[str, Any] = {
        "trigger": random.choice(["OnCommit", "Continuous"]),
        "pollIntervalSeconds": 10,
        "proveBeforeSwitch": border.make_random(seed, "proof").choice(["Count", "Sample"]),
    }
    if random.random() < 0.3:
        changelog["maxBytesPerBatch"] = 250
    spec = {
        "catalog": {"properties": {"type": "hadoop", "warehouse": "/nowhere"}},
        "tables": [{"name": TABLE, "index": ALIAS, "identifierColumns": ["id"]}],
        "sink": {"opensearch": {"hosts": ["http://127.0.0.1:1"]}},
        "changelog": changelog,
        "resync": {"nonce": 0},
    }
    return {
        "apiVersion": "icebergcdc.dev/v1alpha1",
        "kind": "IcebergCDCPipeline",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": spec,
    }
