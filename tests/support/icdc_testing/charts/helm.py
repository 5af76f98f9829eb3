"""Runs Helm, and tells what differs between two renderings of a chart. Knows no chart's values."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import yaml

from icdc_testing.kube.kubectl import Ran

_COMMAND_SECONDS = 120.0

Object = dict[str, Any]


@dataclass(frozen=True)
class Helm:
    """Helm without anything of the person who runs the tests."""

    program: Path
    home: Path
    """Where it keeps caches and settings."""
    kubeconfig: Path | None = None
    seconds: float = _COMMAND_SECONDS
    """How long a command may take."""

    def on(self, kubeconfig: Path) -> Self:
        """The same for a cluster."""
        return replace(self, kubeconfig=kubeconfig)

    def run(self, *arguments: str, values: Mapping[str, Any] | None = None) -> Ran:
        """Runs to the end, whichever it is; `values` as a file of values."""
        homes = {f"HELM_{name}_HOME": str(self.home / name) for name in ("CACHE", "CONFIG", "DATA")}
        # A file that is not there, so that nobody's cluster is reached by mistake.
        kubeconfig = self.kubeconfig or self.home / "none"
        given = [] if values is None else ["--values", "-"]
        done = subprocess.run(
            [str(self.program), *arguments, *given],
            input="" if values is None else json.dumps(values),
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={**os.environ, **homes, "KUBECONFIG": str(kubeconfig)},
            timeout=self.seconds,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def ok(self, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
        """What it printed; AssertionError with its complaint where it failed."""
        ran = self.run(*arguments, values=values)
        assert ran.code == 0, f"helm {' '.join(arguments)}: {ran.err}"
        return ran.out

    def rendered(
        self, chart: Path, values: Mapping[str, Any], release: str, namespace: str
    ) -> list[Object]:
        """The objects that the chart makes of the values."""
        text = self.ok("template", release, str(chart), "--namespace", namespace, values=values)
        return [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Values from paths with dots."""
    result: dict[str, Any] = {}
    for path, value in flat.items():
        *above, last = path.split(".")
        below = result
        for part in above:
            below = below.setdefault(part, {})
        below[last] = value
    return result


def changes(before: list[Object], after: list[Object]) -> set[str]:
    """What is in one of them only: whole objects, else single fields.

    `+ Kind namespace/name`, `- Kind namespace/name`, `Kind namespace/name path += value` (or `-=`),
    and `Kind namespace/name path: old -> new`.
    """
    old, new = ({_name(each): each for each in objects} for objects in (before, after))
    gone = {f"- {name}" for name in old.keys() - new.keys()}
    made = {f"+ {name}" for name in new.keys() - old.keys()}
    changed = {
        f"{name} {field}"
        for name in old.keys() & new.keys()
        for field in _changed(_fields(old[name]), _fields(new[name]))
    }
    return gone | made | changed


def _name(each: Object) -> str:
    metadata = each["metadata"]
    where = f"{metadata['namespace']}/" if "namespace" in metadata else ""
    return f"{each['kind']} {where}{metadata['name']}"


def _changed(old: dict[str, list[str]], new: dict[str, list[str]]) -> Iterator[str]:
    for path in sorted(old.keys() | new.keys()):
        left, right = old.get(path, []), new.get(path, [])
        if len(left) == len(right) == 1 and left != right:
            yield f"{path}: {left[0]} -> {right[0]}"
        else:
            yield from (f"{path} -= {value}" for value in left if value not in right)
            yield from (f"{path} += {value}" for value in right if value not in left)


def _fields(root: Any) -> dict[str, list[str]]:
    """The values at each path. Parts of a list go by their name; plain values in it share one."""
    found: dict[str, list[str]] = {}

    def walk(node: Any, path: str) -> None:
        if isinstance(node, dict) and node:
            for name, value in node.items():
                walk(value, f"{path}.{name}".lstrip("."))
        elif isinstance(node, list) and node:
            for number, value in enumerate(node):
                mark = value.get("name", number) if isinstance(value, dict) else None
                walk(value, path if mark is None else f"{path}[{mark}]")
        else:
            found.setdefault(path, []).append(node if isinstance(node, str) else json.dumps(node))

    walk(root, "")
    return found
