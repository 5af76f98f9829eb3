"""Reads an error answer of OpenSearch: its type, and what its reason names beside rows.

A reason may quote a row. Only names and numbers of known sentences are taken from one:

    index [orders-000001] blocked by: [FORBIDDEN/8/index write (api)];
    blocked by: [FORBIDDEN/6/cluster read-only (api)];
    this action would add [2] total shards, but this cluster currently has [999]/[1000] maximum …
    … This limit can be set by changing the [index.max_result_window] index level setting.
    failed to parse filter for alias [orders]
    alias [orders-write] has more than one write index [orders-000001,orders-000002]

It must not decide what follows: `target_errors` does.
"""

import json
import re

CONTEXT_MISSING = "search_context_missing_exception"
"""Error type of a point in time or scroll that is gone from a shard."""
SHARD_TYPES = frozenset(
    {
        "illegal_index_shard_state_exception",
        "index_shard_closed_exception",
        "index_shard_not_started_exception",
        "index_shard_recovering_exception",
        "index_shard_relocated_exception",
        "no_shard_available_action_exception",
        CONTEXT_MISSING,
        "shard_not_found_exception",
        "shard_not_in_primary_mode_exception",
        "unavailable_shards_exception",
    }
)
"""Error types of a shard that moves, starts or is lost, some of them answered with 404."""
SNAPSHOT_RUNS = "snapshot_in_progress_exception"
"""Error type, with status 400, of a deletion of an index of which a snapshot is being taken."""
_CANCELLED = "task_cancelled_exception"
"""Error type of a search that took longer than the cluster allows, or that it was too busy for."""
_FORWARDED = "remote_transport_exception"
"""Error type that hides another: what a second node answered, where no details are given."""
_PASSING_TYPES = SHARD_TYPES | {SNAPSHOT_RUNS, _CANCELLED, _FORWARDED}
"""Error types of what passes by itself, whatever the status."""
_EXPLAINED = {
    SNAPSHOT_RUNS: "a snapshot is being taken of an index that is to be deleted, which is done "
    "once the snapshot is complete",
    CONTEXT_MISSING: "what was open for reading is gone, as after the restart "
    "of a node, and is read anew",
    _CANCELLED: "it cancels searches that take longer than search.cancel_after_time_interval, or "
    "while it is under pressure",
    _FORWARDED: "what another node has refused is not known where http.detailed_errors.enabled is "
    "false",
}
"""What some of them mean, as clauses."""
_OF_SEARCHES = "search_phase_execution_exception"
"""Error type that stands before the errors of the shards."""

_BLOCK_TYPES = frozenset(
    {"cluster_block_exception", "index_closed_exception", "index_create_block_exception"}
)
_CLASS = re.compile(r"(?:OpenSearch)?([A-Z]\w+Exception)\[")
"""In a text that stands in place of the type, where http.detailed_errors.enabled is false."""
_BLOCKED = re.compile(
    r"(?:index \[(?P<index>[^\]\s]+)] )?blocked by: \[[A-Z_]+/\d+/(?P<block>[\w ,/()-]{1,100})]"
)
_SHARDS = re.compile(
    r"this action would add \[\d+] [\w ]{1,40}, "
    r"but this cluster currently has \[\d+]/\[\d+] [\w ]{1,40}"
)
_LIMIT = re.compile(r"This (?:limit|maximum) can be set by changing the \[([a-z_.]{1,80})]")
_FILTER = re.compile(r"failed to parse filter for alias \[([^\]\s]+)]")
_WRITE_ALIAS = re.compile(r"alias \[([^\]\s]+)] has more than one write index")


def parse_error_type(info: object) -> str:
    """Return the type in an error answer (parsed, or its JSON text); `unknown` if it has none.

    | answer                                                           | type                      |
    |------------------------------------------------------------------|---------------------------|
    | {"error": {"type": "index_not_found_exception", …}}              | index_not_found_exception |
    | {"error": {"type": "search_phase_execution_exception",           | the cause of the first    |
    |  "root_cause": [{"type": "search_context_missing_exception"}]}}  | shard, as far as known    |
    | {"error": "IndexNotFoundException[no such index [orders]]"}      | index_not_found_exception |
    """
    if isinstance(info, bytes | str):
        try:
            info = json.loads(info)
        except ValueError:
            return "unknown"
    error = info.get("error") if isinstance(info, dict) else None
    kind = error.get("type") if isinstance(error, dict) else error
    if isinstance(error, dict) and kind == _OF_SEARCHES:
        kind = _find_cause(error.get("root_cause")) or kind
    if not isinstance(kind, str):
        return "unknown"
    named = _CLASS.match(kind)
    # Bounded: a proxy in between may answer with anything under this name.
    return (_name_class(named[1]) if named else kind)[:100]


def _find_cause(causes: object) -> object:
    first = causes[0] if isinstance(causes, list) and causes else None
    return first.get("type") if isinstance(first, dict) else None


def _name_class(name: str) -> str:
    """Return the type of a class, such as index_not_found_exception of IndexNotFoundException."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def refuses_writes(status: int, kind: str) -> bool:
    """Return whether such an error is a block that stays until a person removes it.

    | block                                        | id    | status | stays |
    |----------------------------------------------|-------|--------|-------|
    | state not recovered (the node has started)   | 1     | 503    | no    |
    | no cluster manager (an election, a cut)      | 2     | 503    | no    |
    | index closed                                 | 4     | 400, 403 | yes |
    | index or cluster read-only, index write      | 5-8   | 403    | yes   |
    | index metadata, creation of indices          | 9, 10 | 403    | yes   |
    | read-only because the disk is full           | 12, 13 | 429   | yes   |

    An answer with several blocks has the greatest of their statuses, so that 503 is always seen.
    """
    return kind in _BLOCK_TYPES and status < 500


def describe_block(kind: str, reason: str) -> str:
    """Return what is blocked, and by what, as a part of a sentence; `kind` is the error's type."""
    named = _BLOCKED.search(reason)
    if not named:
        return f" ({kind})"
    where = f" to index {named['index']!r}" if named["index"] else ""
    return f"{where} ({kind}: {named['block']})"


def passes(status: int, kind: str) -> bool:
    """Return whether such an error passes by itself."""
    # Of a search whose cause is not given: where an index is missing, no shard is asked.
    is_of_shards = status == 404 and kind == _OF_SEARCHES
    return status >= 500 or kind in _PASSING_TYPES or is_of_shards


def describe_passing(kind: str) -> str:
    """Return what such an error means, as the end of a sentence; empty where its type says it."""
    return f": {_EXPLAINED[kind]}" if kind in _EXPLAINED else ""


def find_shard_limit(reason: str) -> str:
    """Return how the limit of shards is reached; empty where that is not the reason."""
    named = _SHARDS.search(reason)
    return named[0] if named else ""


def find_fault(reason: str) -> str:
    """Return which setting or alias of the target refuses any such request; empty if none is named.

    As a part of a sentence, with what to do.
    """
    if limit := _LIMIT.search(reason):
        return f"its setting {limit[1]} is too low: put its default back"
    if alias := _WRITE_ALIAS.search(reason):
        return (
            f"alias {alias[1]!r} would have two write indices: take is_write_index out of the "
            "index template that gives each index this alias"
        )
    if alias := _FILTER.search(reason):
        return (
            f"the filter of alias {alias[1]!r} does not fit the index that it would point to: "
            "change the filter, or take it off the alias"
        )
    return ""
