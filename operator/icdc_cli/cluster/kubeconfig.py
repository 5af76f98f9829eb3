"""Which context and namespace a person is in, by the rules of kubectl.

Reads kubeconfig files for names alone: addresses and credentials are `cluster.connect`'s business.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from icdc_api.errors import BadSpec
from icdc_api.naming import DEFAULT_NAMESPACE
from icdc_operator.cluster.kube.connect import IN_CLUSTER, KUBECONFIG

POD_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True)
class Context:
    """Where commands go that say nothing else."""

    name: str | None
    """Of the kubeconfig; None in a pod."""
    namespace: str


def chosen(
    env: Mapping[str, str], wanted: str | None, *, pod_file: Path = POD_NAMESPACE_FILE
) -> Context:
    """The context `wanted`, or the current one; BadSpec where a kubeconfig cannot be read."""
    if IN_CLUSTER in env and not env.get(KUBECONFIG) and wanted is None:
        return Context(None, _pod_namespace(pod_file))
    documents = list(_documents(env))
    name = wanted or next((each["current-context"] for each in documents if _current(each)), None)
    for entry in _contexts(documents):
        if entry.get("name") == name:
            inner = entry.get("context")
            namespace = inner.get("namespace") if isinstance(inner, dict) else None
            return Context(name, str(namespace or DEFAULT_NAMESPACE))
    return Context(name, DEFAULT_NAMESPACE)


def _pod_namespace(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip() or DEFAULT_NAMESPACE
    except OSError:
        return DEFAULT_NAMESPACE


def _documents(env: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Every kubeconfig that is there; the first one that names something wins."""
    paths = env.get(KUBECONFIG) or str(Path.home() / ".kube" / "config")
    for path in (Path(each).expanduser() for each in paths.split(os.pathsep) if each):
        try:
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            text = " ".join(str(error).split())
            raise BadSpec(f"the kubeconfig {path} cannot be read: {text}") from error
        if document is None:
            continue
        if not isinstance(document, dict):
            raise BadSpec(f"the kubeconfig {path} is not one: it holds no mapping")
        yield document


def _current(document: dict[str, Any]) -> bool:
    return isinstance(document.get("current-context"), str) and bool(document["current-context"])


def _contexts(documents: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for document in documents:
        entries = document.get("contexts")
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                yield entry
