"""The model of OpenSearch: what it answers to each request that the product makes.

Written from what real nodes answer; it knows nothing of the protocol. A request that the model does
not know is an error of the simulation.
"""

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from pydantic_core import from_json

from icdc_testing.simulation.model.bulk import answer_bulk
from icdc_testing.simulation.model.stored_index import StoredIndex

Answer = tuple[int, dict[str, Any]]
Params = Mapping[str, Any]

STATE = "icdc-state"


def answer_missing(name: str) -> Answer:
    """Return the answer for an index that does not exist."""
    return answer_error(404, "index_not_found_exception", f"no such index [{name}]")


def answer_error(status: int, kind: str, reason: str = "") -> Answer:
    """Return an error answer."""
    return status, {"error": {"type": kind, "reason": reason}, "status": status}


class UnknownRequestError(Exception):
    """A request that the model does not know."""


class ModelTarget:
    """All indices, and the bulk requests under way."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.indices: dict[str, StoredIndex] = {}
        self.tasks: dict[int, str] = {}
        """The opaque ids of bulk requests that are under way."""
        self.failing_nodes_until = -1.0
        """A node does not answer for its tasks until then."""
        self.refusing_tasks_until = -1.0
        """No question about tasks is answered until then."""
        self.snapshotted: set[str] = set()
        """The indices of which a snapshot is being taken."""
        self._made = 0

    def find_aliased(self, alias: str) -> dict[str, dict[str, Any]]:
        """Return the indices of an alias, with its filter and routing."""
        return {i.name: i.aliases[alias] for i in self.indices.values() if alias in i.aliases}

    def find(self, name: str) -> StoredIndex | None:
        """Return the index of that name, or the one behind the alias of that name."""
        if name in self.indices:
            return self.indices[name]
        behind = list(self.find_aliased(name))
        return self.indices[behind[0]] if len(behind) == 1 else None

    def make(self, name: str, body: Mapping[str, Any]) -> StoredIndex:
        """Create an index."""
        self._made += 1
        settings = {"index.uuid": f"uuid-{self._made}", "index.number_of_shards": "1"}
        settings.update(
            {key: _format_setting(value) for key, value in dict(body.get("settings", {})).items()}
        )
        index = StoredIndex(
            name,
            f"uuid-{self._made}",
            self.make_history(),
            settings=settings,
            mapping=dict(body.get("mappings", {})),
        )
        self.indices[name] = index
        return index

    def make_history(self) -> str:
        """Return a history that no shard has had."""
        self._made += 1
        return f"history-{self._made}"

    def handle(self, method: str, path: str, params: Params, body: Any) -> Answer:
        """Return status and content of the answer to one request."""
        parts = _split_path(path)
        if parts[0].startswith("_"):
            return self._handle_cluster(method, parts, from_json(body) if body else {})
        name, rest = parts[0], parts[1:]
        if rest == ("_bulk",):
            return answer_bulk(self, name, body)
        content = from_json(body) if body else {}
        if not rest:
            return self._handle_index(method, name, content)
        match rest[0]:
            case "_doc":
                return self._handle_document(method, name, rest[1], params, content)
            case "_alias":
                return self._list_aliases(name.split(","), rest[1] if rest[1:] else "*")
            case "_mapping":
                return self._handle_mapping(method, name, content)
            case "_settings":
                return self._handle_settings(method, name, content)
            case "_stats":
                return self._answer_stats(name.split(","))
        index = self.find(name)
        if index is None:
            return answer_missing(name)
        return self._handle_search(index, rest[0], content)

    def _handle_cluster(self, method: str, parts: Sequence[str], content: dict[str, Any]) -> Answer:
        match parts[0]:
            case "_tasks":
                tasks = {
                    f"node:{number}": {"headers": {"X-Opaque-Id": tag}}
                    for number, tag in {-1: "icdc-question", **self.tasks}.items()
                }
                if self.now() < self.failing_nodes_until:
                    # The node that does not answer is the one with the tasks.
                    return 200, {"nodes": {}, "node_failures": [{"type": "failed_node_exception"}]}
                return 200, {"nodes": {"node": {"tasks": tasks}}}
            case "_nodes":
                # The only node, which is never restarted.
                jvm = {"jvm": {"start_time_in_millis": 1}}
                return 200, {"_nodes": {"failed": 0}, "nodes": {"node": jvm}}
            case "_cluster":
                index = self.find(parts[2])
                if index is None:
                    return 408, {"status": "red", "timed_out": True}
                return 200, {"status": "green", "timed_out": False}
            case "_alias":
                pointing = self.find_aliased(parts[1])
                if not pointing:
                    return 404, {"error": f"alias [{parts[1]}] missing", "status": 404}
                return 200, {n: {"aliases": {parts[1]: how}} for n, how in pointing.items()}
            case "_aliases" if method == "POST":
                return self._change_aliases(content["actions"])
        raise UnknownRequestError(f"{method} {parts}")

    def _list_aliases(self, patterns: list[str], alias: str) -> Answer:
        """Answer which aliases of some indices fit a pattern; no index is no error."""
        listed: dict[str, Any] = {}
        for index in self.indices.values():
            names = [index.name, *index.aliases]
            if any(fnmatch.filter(names, pattern) for pattern in patterns):
                fitting = fnmatch.filter(index.aliases, alias)
                listed[index.name] = {"aliases": {k: index.aliases[k] for k in fitting}}
        # Like the server, which names indices without such an alias only where none was named.
        return 200, {n: body for n, body in listed.items() if alias == "*" or body["aliases"]}

    def _change_aliases(self, actions: list[dict[str, Any]]) -> Answer:
        for action in actions:
            ((kind, how),) = action.items()
            index = self.indices.get(how["index"])
            if index is None:
                return answer_missing(how["index"])
            if kind == "remove" and how["alias"] not in index.aliases:
                return answer_error(404, "aliases_not_found_exception")
        for action in actions:
            ((kind, how),) = action.items()
            aliases = self.indices[how["index"]].aliases
            if kind == "remove":
                del aliases[how["alias"]]
            else:
                aliases[how["alias"]] = {
                    k: v for k, v in how.items() if k not in ("index", "alias")
                }
        return 200, {"acknowledged": True}

    def _handle_index(self, method: str, name: str, content: dict[str, Any]) -> Answer:
        if method == "PUT":
            if name in self.indices or self.find_aliased(name):
                return answer_error(400, "resource_already_exists_exception")
            self.make(name, content)
            return 200, {"acknowledged": True}
        index = self.find(name) if method in ("GET", "HEAD") else self.indices.get(name)
        if index is None:
            return answer_missing(name)
        if method == "DELETE":
            if name in self.snapshotted:
                return answer_error(400, "snapshot_in_progress_exception")
            del self.indices[name]
            return 200, {"acknowledged": True}
        body = {"settings": index.settings, "mappings": index.mapping, "aliases": index.aliases}
        return 200, {index.name: body}

    def _handle_mapping(self, method: str, name: str, content: dict[str, Any]) -> Answer:
        if "*" in name:
            names = [n for n in self.indices if fnmatch.fnmatchcase(n, name)]
            return 200, {n: {"mappings": self.indices[n].mapping} for n in names}
        index = self.find(name)
        if index is None:
            return answer_missing(name)
        if method == "PUT":
            index.mapping.update(content)
            return 200, {"acknowledged": True}
        return 200, {index.name: {"mappings": index.mapping}}

    def _handle_settings(self, method: str, name: str, content: dict[str, Any]) -> Answer:
        index = self.find(name)
        if index is None:
            return answer_missing(name)
        if method == "PUT":
            index.settings.update(
                {k: _format_setting(v) for k, v in content.items() if v is not None}
            )
            return 200, {"acknowledged": True}
        asked = {"uuid": index.uuid, "number_of_shards": "1"}
        return 200, {index.name: {"settings": {"index": asked}}}

    def _handle_document(
        self, method: str, name: str, document_id: str, params: Params, content: dict[str, Any]
    ) -> Answer:
        index = self.find(name)
        if index is None and method == "PUT":
            index = self.make(name, {})
        if index is None:
            return answer_missing(name)
        there = index.documents.get(document_id)
        if method == "GET":
            if there is None:
                return 404, {"_index": index.name, "_id": document_id, "found": False}
            order = {"_seq_no": there.seq_no, "_primary_term": there.term}
            identity = _identify(index, document_id, there.version)
            return 200, {**identity, **order, "found": True, "_source": there.source}
        if "if_seq_no" in params:
            expected = (int(params["if_seq_no"]), int(params["if_primary_term"]))
            if there is None or (there.seq_no, there.term) != expected:
                return answer_error(409, "version_conflict_engine_exception")
        if params.get("op_type") == "create" and there is not None:
            return answer_error(409, "version_conflict_engine_exception")
        result, version = index.write(document_id, content if method == "PUT" else None, self.now())
        order = {"_seq_no": index.max_seq_no, "_primary_term": index.term}
        status = {"created": 201, "not_found": 404}.get(result, 200)
        return status, {**_identify(index, document_id, version), **order, "result": result}

    def _answer_stats(self, names: list[str]) -> Answer:
        body: dict[str, Any] = {}
        for name in names:
            index = self.find(name)
            if index is None:
                return answer_missing(name)
            copy = {
                "routing": {"primary": True, "state": "STARTED", "node": "node"},
                "commit": {"user_data": {"history_uuid": index.history}},
                "seq_no": {"max_seq_no": index.max_seq_no},
            }
            body[index.name] = {"uuid": index.uuid, "shards": {"0": [copy]}}
        return 200, {"_shards": {"total": len(names)}, "indices": body}

    def _handle_search(self, index: StoredIndex, what: str, content: dict[str, Any]) -> Answer:
        shards = {"_shards": {"total": 1, "successful": 1, "failed": 0}}
        if what == "_refresh":
            index.refresh()
            return 200, shards
        query = content.get("query", {})
        visible = sorted(index.visible.items())
        hits = {key: one for key, one in visible if _matches(key, one.source, query)}
        if what == "_delete_by_query":
            deleted = [key for key in hits if index.documents.get(key) == hits[key]]
            for key in deleted:
                index.write(key, None, self.now())
            index.refresh()
            return 200, {"deleted": len(deleted), "failures": [], "timed_out": False}
        if "aggs" in content:
            ordinals = [document.source["ordinal"] for document in hits.values()]
            return 200, {**shards, "aggregations": {"last": {"value": max(ordinals, default=None)}}}
        names = [part.get("_name") for part in query.values()]
        page = [
            {"_id": key, "_version": hit.version, "_source": hit.source}
            | {"sort": [position], "matched_queries": names}
            for position, (key, hit) in enumerate(hits.items())
        ]
        return 200, {**shards, "hits": {"total": {"value": len(page)}, "hits": page}}


@lru_cache(maxsize=10_000)
def _split_path(path: str) -> tuple[str, ...]:
    return tuple(unquote(part) for part in path.strip("/").split("/"))


def _format_setting(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _identify(index: StoredIndex, document_id: str, version: int) -> dict[str, Any]:
    return {"_index": index.name, "_id": document_id, "_version": version}


def _matches(key: str, source: dict[str, Any], query: dict[str, Any]) -> bool:
    if "ids" in query:
        return key in query["ids"]["values"]
    if "term" in query:
        return bool(source["ordinal"] == query["term"]["ordinal"])
    if "range" in query:
        return bool(source["ordinal"] < query["range"]["ordinal"]["lt"])
    return True
