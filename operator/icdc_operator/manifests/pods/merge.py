"""Merge a user's pod template into ours: the user's values win, lists are merged by key.

    ours                              user's                         result
    nodeSelector absent               nodeSelector: {disk: nvme}     nodeSelector: {disk: nvme}
    securityContext: {runAsUser: 185} securityContext:               runAsUser: null
                                        {runAsUser: null}
    containers: [a: {image: x}]       containers: [a: {env: [E]},    [a: {image: x, env: [E]},
                                        b]                              b]
    volumes: [v]                      volumes: null                  [v]
    env: [A: {value: x}]              env: [A: {valueFrom: y}]       env: [A: {valueFrom: y}]

Forbidden values are refused beforehand by `refused_values`, so this module knows no reserved name.
"""

from typing import Any

LIST_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    # One volume may be mounted at several paths, so its name does not identify a mount.
    "volumeMounts": "mountPath",
}
"""The field that identifies an item of each list, as in strategic merge patches of Kubernetes."""


def merge_values(ours: Any, theirs: Any, field: str = "") -> Any:
    """Return `theirs` merged over `ours`; neither is changed. `field`: name of a list.

    A null removes a single value, such as `runAsUser: null` where the cluster chooses the user. It
    does not remove a mapping or list: a key without a value in YAML must not remove what a run
    needs.
    """
    if isinstance(ours, dict) and isinstance(theirs, dict):
        both = {
            key: merge_values(value, theirs[key], key) if key in theirs else value
            for key, value in ours.items()
        }
        return {**both, **{key: value for key, value in theirs.items() if key not in ours}}
    if isinstance(ours, list) and isinstance(theirs, list) and field in LIST_KEYS:
        return _merge_lists(ours, theirs, field)
    if theirs is None and isinstance(ours, dict | list):
        return ours
    return theirs


def _merge_lists(ours: list[Any], theirs: list[Any], field: str) -> list[Any]:
    """Return our items, each merged with theirs of the same key, then the rest of theirs."""
    key = LIST_KEYS[field]
    over = {item[key]: item for item in theirs}
    our_keys = {item[key] for item in ours}
    if field == "env":
        # A variable has a value or a source, never both: theirs takes the place of ours.
        first = [over.get(item[key], item) for item in ours]
    else:
        first = [merge_values(one, over[one[key]]) if one[key] in over else one for one in ours]
    return [*first, *(item for item in theirs if item[key] not in our_keys)]
