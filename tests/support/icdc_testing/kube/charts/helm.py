"""Run Helm, and list the differences between two renderings of a chart. Knows no values."""

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
    """Helm without the settings of the person who runs the tests."""

    program: Path
    """The executable."""
    home: Path
    """Directory for its caches and settings."""
    kubeconfig: Path | None = None
    """The cluster; None for none."""
    seconds: float = _COMMAND_SECONDS
    """Time-out of a command."""
    folder: Path | None = None
    """Where it is called; None: where the tests are."""

    def connect(self, kubeconfig: Path) -> Self:
        """Return the same Helm for a cluster."""
        return replace(self, kubeconfig=kubeconfig)

    def run(self, *arguments: str, values: Mapping[str, Any] | None = None) -> Ran:
        """Run to the end and return exit code and output; `values` are passed as a file."""
        homes = {f"HELM_{name}_HOME": str(self.home / name) for name in ("CACHE", "CONFIG", "DATA")}
        # A file that does not exist, so that no cluster of the person is reached by mistake.
        kubeconfig = self.kubeconfig or self.home / "none"
        given = [] if values is None else ["--values", "-"]
        done = subprocess.run(
            [str(self.program), *arguments, *given],
            cwd=self.folder,
            input="" if values is None else json.dumps(values),
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={**os.environ, **homes, "KUBECONFIG": str(kubeconfig)},
            timeout=self.seconds,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def run_ok(self, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
        """Run and return the output; AssertionError with stderr where it failed."""
        ran = self.run(*arguments, values=values)
        assert ran.code == 0, f"helm {' '.join(arguments)}: {ran.err}"
        return ran.out

    def render(
        self, chart: Path, values: Mapping[str, Any], release: str, namespace: str
    ) -> list[Object]:
        """Return the objects that the chart renders from `values`."""
        text = self.run_ok("template", release, str(chart), "--namespace", namespace, values=values)
        return [item for item in yaml.load_all(text, Loader=yaml.CSafeLoader) if item]


def nest_values(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested values from paths: {"a.b": 1} becomes {"a": {"b": 1}}."""
    result: dict[str, Any] = {}
    for path, value in flat.items():
        *above, last = path.split(".")
        below = result
        for part in above:
            below = below.setdefault(part, {})
        below[last] = value
    return result


def list_changes(before: list[Object], after: list[Object]) -> set[str]:
    """Return what is in one of both only: whole objects, else single fields.

    `+ Kind namespace/name`, `- Kind namespace/name`, `Kind namespace/name path += value` (or `-=`),
    and `Kind namespace/name path: old -> new`.
    """
    old, new = ({_format_name(item): item for item in objects} for objects in (before, after))
    removed = {f"- {name}" for name in old.keys() - new.keys()}
    added = {f"+ {name}" for name in new.keys() - old.keys()}
    changed = {
        f"{name} {field}"
        for name in old.keys() & new.keys()
        for field in _list_field_changes(_list_fields(old[name]), _list_fields(new[name]))
    }
    return removed | added | changed


def _format_name(item: Object) -> str:
    metadata = item["metadata"]
    where = f"{metadata['namespace']}/" if "namespace" in metadata else ""
    return f"{item['kind']} {where}{metadata['name']}"


def _list_field_changes(old: dict[str, list[str]], new: dict[str, list[str]]) -> Iterator[str]:
    for path in sorted(old.keys() | new.keys()):
        left, right = old.get(path, []), new.get(path, [])
        if len(left) == len(right) == 1 and left != right:
            yield f"{path}: {left[0]} -> {right[0]}"
        else:
            yield from (f"{path} -= {value}" for value in left if value not in right)
            yield from (f"{path} += {value}" for value in right if value not in left)


def _list_fields(root: Any) -> dict[str, list[str]]:
    """Return the values at each path; items of a list by their name, plain ones share a path."""
    fields: dict[str, list[str]] = {}

    def walk(node: Any, path: str) -> None:
        if isinstance(node, dict) and node:
            for name, value in node.items():
                walk(value, f"{path}.{name}".lstrip("."))
        elif isinstance(node, list) and node:
            for number, value in enumerate(node):
                mark = value.get("name", number) if isinstance(value, dict) else None
                walk(value, path if mark is None else f"{path}[{mark}]")
        else:
            fields.setdefault(path, []).append(node if isinstance(node, str) else json.dumps(node))

    walk(root, "")
    return fields
