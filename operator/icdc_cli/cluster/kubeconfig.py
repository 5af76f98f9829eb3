"""The kubeconfig by the rules of kubectl: which context and namespace a person is in.

Read here and not by the `kubernetes` library, whose import takes longer than the whole command; see
`credentials`. A person who has just used kubectl must land in the same cluster and namespace: a
pause of the wrong pipeline is worse than an error.

Several files are read as one: the first that names something wins. Must not know what an entry
means for a connection; that is `credentials`.

    KUBECONFIG=a:b    a: current-context x; contexts x     b: current-context y; contexts x, y
    choose_context    x, as a has it                       --context y: as b has it
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from icdc_api.errors import BadSpec
from icdc_api.naming import DEFAULT_NAMESPACE
from icdc_operator.cluster.kube.environment import IN_CLUSTER, KUBECONFIG

POD_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True)
class Context:
    """Where commands go that say nothing else."""

    name: str | None
    """Of the kubeconfig; None in a pod, and where no context is current."""
    namespace: str
    """Of the context or of the pod; `default` where neither says one."""


@dataclass(frozen=True)
class Entry:
    """One named entry of a kubeconfig."""

    folder: Path
    """Folder of the file that it stands in: relative paths in it begin there."""
    inner: Mapping[str, Any]
    """What stands below its name."""


def choose_context(
    env: Mapping[str, str], wanted: str | None, *, pod_file: Path = POD_NAMESPACE_FILE
) -> Context:
    """Return the context `wanted`, or the current one. BadSpec where a file cannot be read.

    A context that does not exist is no error here, but of `credentials.read_login`, which needs the
    entry; only there can the message list those that exist. `pod_file` is for tests.
    """
    # A context that is asked for by name goes before the pod's own account.
    if is_in_pod(env) and wanted is None:
        return Context(None, _read_pod_namespace(pod_file))
    documents = [document for _, document in _read_documents(env)]
    # A generator: of several files, only the first that has a current context counts.
    current = (document["current-context"] for document in documents if _has_current(document))
    name = wanted or next(current, None)
    entry = None if name is None else _find(env, section="contexts", key="context", name=name)
    namespace = None if entry is None else entry.inner.get("namespace")
    return Context(name, str(namespace or DEFAULT_NAMESPACE))


def is_in_pod(env: Mapping[str, str]) -> bool:
    """Return whether this is a pod whose own account counts: no kubeconfig is named.

    A file in ~/.kube does not count, as an image may hold one by accident; who sets the variable
    means it.
    """
    return IN_CLUSTER in env and not env.get(KUBECONFIG)


def find_entry(env: Mapping[str, str], *, section: str, key: str, name: str) -> Entry:
    """Return what stands in `section` (contexts, clusters, users) under `name`, below `key`.

    BadSpec that lists the names there are, or says that there is no kubeconfig.
    """
    if not any(path.exists() for path in _list_files(env)):
        raise refuse_no_context(env)
    entry = _find(env, section=section, key=key, name=name)
    if entry is None:
        names = sorted(str(named.get("name")) for _, named in _list_entries(env, section))
        listed = ", ".join(names) or "none"
        raise BadSpec(f"the kubeconfig {_read_paths(env)} has no {key} {name}; it has: {listed}")
    return entry


def list_contexts(env: Mapping[str, str]) -> list[str]:
    """Return the names of all contexts, sorted; BadSpec where a file cannot be read."""
    return sorted({str(entry.get("name")) for _, entry in _list_entries(env, "contexts")})


def refuse_no_context(env: Mapping[str, str]) -> BadSpec:
    """Return the error for a host on which nothing says which cluster is meant."""
    # Two errors with two remedies: a file without a current context, and none at all.
    if any(path.is_file() for path in _list_files(env)):
        return BadSpec(f"the kubeconfig {_read_paths(env)} has no current context: use --context")
    if env.get(KUBECONFIG):
        return BadSpec(
            f"there is no kubeconfig at {_read_paths(env)}: correct --kubeconfig or {KUBECONFIG}"
        )
    if is_in_pod(env):
        return BadSpec(
            f"there is no kubeconfig at {_read_paths(env)}, and so no context to choose: leave out "
            "--context to ask the cluster of this pod"
        )
    return BadSpec(
        "no cluster is configured: this is not a pod, and there is no kubeconfig at "
        f"{_read_paths(env)}; set {KUBECONFIG}"
    )


def _find(env: Mapping[str, str], *, section: str, key: str, name: str) -> Entry | None:
    for folder, entry in _list_entries(env, section):
        if entry.get("name") == name:
            inner = entry.get(key)
            return Entry(folder, inner if isinstance(inner, dict) else {})
    return None


def _read_pod_namespace(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip() or DEFAULT_NAMESPACE
    except OSError:
        return DEFAULT_NAMESPACE


def _read_paths(env: Mapping[str, str]) -> str:
    return env.get(KUBECONFIG) or str(_expand(Path("~", ".kube", "config")))


def _list_files(env: Mapping[str, str]) -> list[Path]:
    # Empty parts are passed over: `KUBECONFIG=$KUBECONFIG:more` has one where it was unset.
    return [_expand(Path(path)) for path in _read_paths(env).split(os.pathsep) if path]


def _expand(path: Path) -> Path:
    try:
        return path.expanduser()
    # A user without a home: of a container that runs by a number alone, or a misspelled ~name.
    except RuntimeError as error:
        raise BadSpec(f"{path}: no home directory is known: set HOME, or {KUBECONFIG}") from error


def _read_documents(env: Mapping[str, str]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the folder and the content of every kubeconfig that is there."""
    for path in _list_files(env):
        try:
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue  # kubectl passes over it too
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            said = error.strerror if isinstance(error, OSError) else None
            text = " ".join((said or str(error)).split())
            raise BadSpec(f"the kubeconfig {path} cannot be read: {text}") from error
        if document is None:
            continue  # an empty file, such as of `touch`
        if not isinstance(document, dict):
            raise BadSpec(f"{path} is not a kubeconfig: it contains no mapping")
        yield path.parent, document


def _has_current(document: dict[str, Any]) -> bool:
    # kubectl writes "" when a context is unset, and the next file then has a say.
    return isinstance(document.get("current-context"), str) and bool(document["current-context"])


def _list_entries(env: Mapping[str, str], section: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the entries of a section with the folder of their file, in the order of the files.

    Sections are lists of {name, …} and not mappings; who takes the first of a name has kubectl's.
    """
    for folder, document in _read_documents(env):
        entries = document.get(section)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                yield folder, entry
