"""Lays a user's pod template over ours: the user's values win, lists are joined by their keys.

What may not be said is refused beforehand, so this knows no reserved name.
"""

from typing import Any

LIST_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    # One volume may be mounted at several paths, so its name does not tell mounts apart.
    "volumeMounts": "mountPath",
}
"""Which field tells the items of a list apart, as in a strategic merge patch of Kubernetes."""


def merge_values(ours: Any, theirs: Any, field: str = "") -> Any:
    """`theirs` over `ours`; neither is changed.

    A null takes one of our values away, such as `runAsUser: null` where the cluster chooses the
    user. In place of a mapping or list it means that nothing was said: a key without a value in
    YAML must not remove what a run needs.
    """
    if isinstance(ours, dict) and isinstance(theirs, dict):
        both = {
            key: merge_values(value, theirs[key], key) if key in theirs else value
            for key, value in ours.items()
        }
        return {**both, **{key: value for key, value in theirs.items() if key not in ours}}
    if isinstance(ours, list) and isinstance(theirs, list) and field in LIST_KEYS:
        return _merge_lists(ours, theirs, LIST_KEYS[field])
    if theirs is None and isinstance(ours, dict | list):
        return ours
    return theirs


def _merge_lists(ours: list[Any], theirs: list[Any], key: str) -> list[Any]:
    """Our items, each with theirs of the same key over it, then the rest of theirs."""
    over = {item[key]: item for item in theirs}
    known = {item[key] for item in ours}
    first = [merge_values(item, over[item[key]]) if item[key] in over else item for item in ours]
    return [*first, *(item for item in theirs if item[key] not in known)]
