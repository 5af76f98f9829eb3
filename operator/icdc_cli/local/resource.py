"""The pipeline of a local run: as its author wrote it, and as the application gets it.

    catalog.properties in the file      s3.secret-access-key: ${KEY}
    written    saved, printed           s3.secret-access-key: ${KEY}
    request    to the application       s3.secret-access-key: <value of KEY>
    pipeline   parsed from the request  the models, by which decisions are made

The first is saved and printed, with `${ENV}` as it stands; the second has the values, which may be
credentials, and goes into requests alone. Knows nothing of runs.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from icdc_api import naming
from icdc_api.crd import loading
from icdc_api.errors import BadSpec, StateCorrupt
from icdc_api.spec.pipeline import Pipeline
from icdc_api.status.pipeline_status import PipelineStatus, parse_status
from icdc_cli.local.state_dir import StateDir

_NO_HOST = "http://opensearch.invalid:9200"
"""No name below `.invalid` is ever resolved (RFC 2606)."""


class _Verbatim(Mapping[str, str]):
    """An environment in which every `${NAME}` stands for itself.

    So one function reads the file for both forms, and they cannot differ in anything but values.
    """

    def __getitem__(self, name: str) -> str:
        return f"${{{name}}}"

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@dataclass(frozen=True)
class LocalPipeline:
    """One PIPELINE.yaml, or one pipeline of a cluster, checked."""

    source: str
    """Path of the file as given, or `icebergcdcpipeline/<name>`, for messages."""
    written: dict[str, Any]
    """The resource as its author wrote it."""
    request: dict[str, Any]
    """The resource for the application, without placeholders."""
    pipeline: Pipeline
    """The same as models. `hosts` may say `embedded` still, when `request` has an address."""

    @property
    def key(self) -> str:
        """`<namespace>-<name>`, for names of directories."""
        return f"{self.pipeline.metadata.namespace}-{self.pipeline.metadata.name}"

    def with_host(self, url: str) -> "LocalPipeline":
        """Return a copy whose `request` has `url` in place of the word `embedded`.

        The saved resource stays as it is: the node has another port at its next start, and a spec
        that changes with it would be a new generation, which ends the run of the one before.
        """
        target = self.request["spec"]["sink"]["opensearch"]
        return replace(self, request=self._build_request({**target, "hosts": [url]}))

    def without_target(self) -> "LocalPipeline":
        """Return a copy that names no OpenSearch, and no Secret of one: it will not be asked."""
        target = {**self.request["spec"]["sink"]["opensearch"], "hosts": [_NO_HOST]}
        for field in ("credentialsFrom", "tls"):
            target.pop(field, None)
        request = self._build_request(target)
        pipeline = loading.parse_pipeline(request, source=self.source)
        return replace(self, request=request, pipeline=pipeline)

    def _build_request(self, target: dict[str, Any]) -> dict[str, Any]:
        """Return the request with `target` in place of its `sink.opensearch`."""
        spec = self.request["spec"]
        sink = {**spec["sink"], "opensearch": target}
        return {**self.request, "spec": {**spec, "sink": sink}}

    def with_status(self, generation: int, status: PipelineStatus) -> dict[str, Any]:
        """Return the whole resource, as `kubectl get -o yaml` shows it.

        With the namespace, which the file may leave out: `recall` compares it.
        """
        metadata = {
            **self.written["metadata"],
            "namespace": self.pipeline.metadata.namespace,
            "generation": generation,
        }
        return {**self.written, "metadata": metadata, "status": status.to_resource()}


def load(path: Path) -> LocalPipeline:
    """Read the pipeline in a file; BadSpec, each line after the file's name, if it is wrong."""
    # Read once: standard input is empty afterwards.
    document, source = loading.load_document(path), loading.name_source(path)
    # A status in the file would be another host's, or another version's; ours is in the state
    # directory. Before parsing: what is not used cannot be wrong.
    document.pop("status", None)
    request = loading.expand(document, os.environ, source=source)
    pipeline = loading.parse_pipeline(request, source=source)
    written = loading.expand(document, _Verbatim(), source=source)
    return LocalPipeline(source, written, request, pipeline)


def copy_stored(stored: Mapping[str, Any]) -> LocalPipeline:
    """Return a pipeline that a cluster has, for a question on this host; BadSpec if it is wrong.

    `${NAME}` stays as it stands: its author must not learn variables of the caller. `spec.spark` is
    left out: it is made for the cluster's pods, and some properties of Spark run commands.
    """
    name, namespace = (stored["metadata"][key] for key in ("name", "namespace"))
    document = {
        **{key: stored.get(key) for key in ("apiVersion", "kind")},
        "metadata": {"name": name, "namespace": namespace},
        "spec": {field: value for field, value in stored["spec"].items() if field != "spark"},
    }
    source = f"{naming.SINGULAR}/{name}"
    pipeline = loading.parse_pipeline(document, source=source)
    return LocalPipeline(source, document, document, pipeline)


def recall(state: StateDir, local: LocalPipeline) -> tuple[int, PipelineStatus]:
    """Return the generation and status that an API server would have stored.

    saved                       file                   returns
    nothing                     any                    1, an empty status
    generation 3, spec A        spec A                 3, its status
    generation 3, spec A        spec B                 4, its status
    of sales/shop               of sales/orders        BadSpec

    Raises BadSpec when the directory is that of another pipeline, and StateCorrupt when what is
    in it was not written by us.
    """
    saved = state.load()
    if saved is None:
        return 1, PipelineStatus()
    metadata = saved["metadata"]
    owner = f"{metadata.get('namespace')}/{metadata.get('name')}"
    # Its status would be taken for that of this pipeline, tables of the same name included.
    if owner != local.pipeline.owner:
        raise BadSpec(
            f"--state-dir {state.root} belongs to the pipeline {owner}, not to "
            f"{local.pipeline.owner}; give another directory"
        )
    generation = metadata.get("generation")
    try:
        status = parse_status(saved.get("status") or {})
    except ValidationError as error:
        raise StateCorrupt(_explain_unreadable(state)) from error
    if not isinstance(generation, int):
        raise StateCorrupt(_explain_unreadable(state))
    # As written: another value of an environment variable is no new spec, as it is none in a
    # cluster when a Secret changes.
    changed = saved.get("spec") != local.written["spec"]
    return generation + (1 if changed else 0), status


def _explain_unreadable(state: StateDir) -> str:
    return (
        f"{state.resource_path} holds a status that icdc did not write; remove the file to "
        "continue: only the history of runs is lost, because progress is stored in OpenSearch"
    )
