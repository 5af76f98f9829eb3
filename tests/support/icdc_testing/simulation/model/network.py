"""The model of the way between the product and OpenSearch: what is late, lost, repeated, refused.

Each fault befalls one request, the next one of its kind after the fault was armed.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opensearchpy.exceptions import ConnectionError as LostConnection
from opensearchpy.exceptions import ConnectionTimeout
from pydantic_core import from_json
from urllib3.exceptions import NewConnectionError

from icdc_api.naming import DEAD_LETTERS_SUFFIX
from icdc_testing.simulation import border
from icdc_testing.simulation.model.bulk import split_bulk
from icdc_testing.simulation.model.connection import ModelConnection
from icdc_testing.simulation.model.stored_index import StoredIndex
from icdc_testing.simulation.model.target import Answer, answer_error
from icdc_testing.simulation.schedule import Killed

if TYPE_CHECKING:
    from icdc_testing.simulation.world import World

CLIENT_SECONDS = 60.0
"""The client's limit of one request."""
NETWORK_SECONDS = 0.9
"""The longest that a request without a client is on its way to the server."""
LONGEST_TASK_SECONDS = 500.0
"""The longest that a server works on a bulk request: less than the product waits for it."""

OWNER_SECONDS = 4.0
"""A request that left so long ago may be older than the answer to who owns the index."""

FAULTS: Mapping[str, tuple[str, ...]] = {
    "bulk": (
        *("lost", "unanswered", "held", "half-held", "repeated", "busy", "partly busy", "cut"),
        "from a lost node",
    ),
    "state": ("lost", "unanswered", "late", "repeated", "busy", "cut"),
    "aliases": ("lost", "unanswered", "late", "busy", "cut"),
    "tasks": ("lost", "silent node", "busy for long"),
    "other": ("lost", "unanswered", "busy", "cut"),
}
"""For each kind of request what can befall it."""


def classify(method: str, path: str) -> str:
    """Return the kind of a request."""
    if path.endswith("/_bulk"):
        return "bulk"
    if path == "/_aliases":
        return "aliases"
    if path == "/_tasks":
        return "tasks"
    if path.startswith("/icdc-state/_doc/") and method in ("PUT", "DELETE"):
        return "state"
    return "other"


class Network:
    """The way of all requests of one world."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.armed: dict[str, list[tuple[str, float]]] = {}
        """By kind of request: faults that wait for one, with a share from 0 to 1."""
        self.requests = 0

    def request(
        self, method: str, path: str, params: Mapping[str, Any], body: Any, tag: str
    ) -> Answer:
        """Send one request for the process that calls, and return the answer."""
        world, schedule = self._world, self._world.schedule
        me = schedule.current
        if me.dead:
            raise Killed
        self.requests += 1
        world.tick()
        is_late = self._travel(path, body)
        if me.cut_until > schedule.now:
            self._lose(never_sent=True)
        kind = classify(method, path)
        waiting = self.armed.get(kind)
        fault, share = waiting.pop(0) if waiting else ("", 0.0)
        if fault:
            world.log(f"{me.name}: {method} {path} is {fault} ({share:.2f})")
            self._prepare(fault, share)
        if fault == "from a lost node":
            world.cluster.lose(me, hangs_for=share * 300.0)
            is_late = self._travel(path, body) or is_late

        def act(part: Any = body) -> Answer:
            return world.apply(me.name, method, path, params, part, is_late=is_late)

        if fault == "repeated":
            self._repeat(act, path, body, share * NETWORK_SECONDS)
        answer = self._send(act, fault, share, kind=kind, body=body, tag=tag)
        schedule.sleep(world.random.random() * 0.01)
        return answer

    def _send(
        self, act: Any, fault: str, share: float, *, kind: str, body: Any, tag: str
    ) -> Answer:
        schedule, target = self._world.schedule, self._world.target
        refusing = kind == "tasks" and schedule.now < target.refusing_tasks_until
        if fault == "busy" or refusing:
            return answer_error(429 if share < 0.3 else 503, "unavailable_shards_exception")
        if fault in ("lost", "cut"):
            self._lose(never_sent=fault == "lost" and share < 0.5)
        if fault in ("held", "half-held", "late", "unanswered"):
            self._leave(act, fault, share, body=body, tag=tag)
        answer: Answer = act()
        return _refuse_half(answer) if fault == "partly busy" else answer

    def _travel(self, path: str, body: Any) -> bool:
        """Let a request go to the target; return whether its process was stopped meanwhile."""
        schedule, is_bulk = self._world.schedule, path.endswith("/_bulk")
        begun, addressed = schedule.now, self._find(path) if is_bulk else None
        schedule.sleep(self._world.random.random() * 0.01)
        is_late = schedule.now - begun > OWNER_SECONDS
        if is_late and addressed is not None:
            self._excuse(addressed, self._find(path), body)
        return is_late

    def _repeat(self, act: Any, path: str, body: Any, seconds: float) -> None:
        """Give a request to the target a second time, after its answer."""
        addressed = self._find(path)

        def act_again() -> None:
            if path.endswith("/_bulk"):
                self._excuse(addressed, self._find(path), body)
            act()

        self._world.schedule.call_later(seconds, act_again)

    def _find(self, path: str) -> tuple[StoredIndex | None, str, int]:
        index = self._world.target.indices.get(path.strip("/").partition("/")[0])
        return (index, index.uuid, index.opened) if index else (None, "", 0)

    def _excuse(
        self,
        addressed: tuple[StoredIndex | None, str, int],
        now: tuple[StoredIndex | None, str, int],
        body: bytes,
    ) -> None:
        """Do not judge what a request writes of which the product cannot know that it is under way.

        Its process was stopped between its question and the request, or the network repeats it
        after its answer. It may come after a newer batch. Only versions keep it from harm, and an
        index that was opened again has forgotten those of deleted documents: the protocol leaves
        that to verify. Nor does a dead letter meet a version where a newer run has removed all: it
        stays until a replay.
        """
        if addressed[1:2] != now[1:2] or now[0] is None:
            return
        if addressed[2] != now[2] or now[0].name.endswith(DEAD_LETTERS_SUFFIX):
            ids = (from_json(entry.partition(b"\n")[0]) for entry in split_bulk(body))
            now[0].unjudged.update(next(iter(action.values()))["_id"] for action in ids)

    def _prepare(self, fault: str, share: float) -> None:
        """Begin what lasts beyond one request."""
        schedule, target = self._world.schedule, self._world.target
        if fault == "cut":
            schedule.current.cut_until = schedule.now + 1.0 + share * 120.0
        elif fault == "silent node":
            target.failing_nodes_until = schedule.now + share * 300.0
        elif fault == "busy for long":
            target.refusing_tasks_until = schedule.now + 60.0 + share * 60.0

    def _leave(self, act: Any, fault: str, share: float, *, body: Any, tag: str) -> None:
        """Give a request to the target at once or later, and nothing to its client."""
        schedule = self._world.schedule
        if fault == "unanswered":
            act()
        elif fault == "late":
            schedule.call_later(share * NETWORK_SECONDS, act)
        else:
            if fault == "half-held":
                operations = split_bulk(body)
                half = (len(operations) + 1) // 2
                guard = b"\n".join(body.split(b"\n")[:2]) + b"\n"
                act(guard + b"".join(operations[:half]))
                body = guard + b"".join(operations[half:])
            self._hold(act, body, tag, share * LONGEST_TASK_SECONDS)
        # The connection is reset, or the client's time is up.
        if share < 0.5:
            self._lose(never_sent=False)
        schedule.sleep(CLIENT_SECONDS)
        raise ConnectionTimeout("TIMEOUT", "simulated", None)

    def _hold(self, act: Any, body: bytes, tag: str, seconds: float) -> None:
        """Let the server work on a bulk request for so long; its client learns nothing."""
        target = self._world.target
        number = self.requests
        target.tasks[number] = tag

        def end() -> None:
            del target.tasks[number]
            act(body)

        self._world.schedule.call_later(seconds, end)

    def _lose(self, *, never_sent: bool) -> None:
        nobody: Any = None
        cause: Any = NewConnectionError(nobody, "simulated") if never_sent else OSError("reset")
        raise LostConnection("N/A", "simulated", cause)


def _refuse_half(answer: Answer) -> Answer:
    """Say that each second item was refused for now, though it may have been applied."""
    status, content = answer
    for position, item in enumerate(content.get("items", [])):
        ((kind, _),) = item.items()
        if position % 2 == 1:
            refusal = {"type": "unavailable_shards_exception", "reason": "simulated"}
            item[kind] = {"status": 503, "error": refusal}
    return status, content


class SimulatedConnection(ModelConnection):
    """Sends the requests of the client through the network of the world."""

    def __init__(self, host: str = "localhost", port: int | None = None, **how: Any) -> None:
        super().__init__(host=host, port=port, headers=how.get("headers"))

    def answer(
        self, method: str, url: str, params: Mapping[str, Any], body: Any, tag: str
    ) -> Answer:
        """Send the request through the world's network."""
        return border.get_world().network.request(method, url, params, body, tag)
