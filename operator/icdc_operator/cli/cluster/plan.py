"""`icdc plan NAME`: what a pipeline in a cluster is, brought to this host to be asked about here.

The Secrets that it names are read with the rights of the person who asks, into a directory for
nobody else, which is removed however the command ends; their values go nowhere else. Starts no
Spark: what is asked, and how, is `questions`' business.
"""

import argparse
import base64
import binascii
import contextlib
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn
from urllib.parse import urlsplit

from icdc_api import loading, naming
from icdc_api.errors import BadSpec, FailureClass, SourceUnavailable, TargetUnavailable
from icdc_api.runs import Failure
from icdc_api.spec import PipelineSpec
from icdc_operator.cli.cluster import next_step, session, status
from icdc_operator.cli.cluster.session import Target
from icdc_operator.cluster.kube import errors, kinds
from icdc_operator.local.resource import LocalPipeline
from icdc_operator.manifests.secret_names import secret_names

HINT = (
    "where only the cluster reaches it, run icdc in a pod of the cluster, or use kubectl "
    "port-forward and a copy of the pipeline with that address (icdc plan -f)"
)
_OUTSIDE = {FailureClass.SOURCE_UNAVAILABLE.value, FailureClass.TARGET_UNAVAILABLE.value}
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Fetched:
    """A pipeline of a cluster, as questions are asked about it here."""

    local: LocalPipeline
    next_step: str
    """What the operator does next by itself."""
    secrets: dict[str, dict[str, bytes]]
    """Values by Secret and key."""


@contextlib.contextmanager
def fetched(arguments: argparse.Namespace) -> Iterator[tuple[Fetched, Path | None]]:
    """The pipeline that the arguments name, and the directory with its Secrets.

    Raises BadSpec for what the cluster refuses or does not have, with the right that lacks.
    """
    found = session.answered(_fetch, arguments)
    if arguments.secrets_dir is not None:
        yield found, arguments.secrets_dir.resolve()
        return
    with _ended_in_order(), tempfile.TemporaryDirectory(prefix="icdc-secrets-") as folder:
        yield found, _written(Path(folder), found.secrets)


def check_hosts(spec: PipelineSpec) -> None:
    """Raises TargetUnavailable or SourceUnavailable for a host whose name means nothing here.

    Spark would find out too, after a minute and in words of its own.
    """
    for url in spec.sink.opensearch.hosts:
        if not _resolves(url):
            raise TargetUnavailable(
                f"the host of {_shown(url)} (spec.sink.opensearch.hosts) is not known here; {HINT}"
            )
    for url in sorted({spec.catalog_of(each).properties.get("uri", "") for each in spec.tables}):
        if url.startswith(("http://", "https://")) and not _resolves(url):
            raise SourceUnavailable(
                f"the host of {_shown(url)} (the property uri of the catalog) is not known here; "
                f"{HINT}"
            )


def hint(answer: dict[str, Any] | Failure) -> str | None:
    """What helps, where the answer may come from being outside of the cluster."""
    if isinstance(answer, Failure):
        reasons = {answer.failure_class.value}
    else:
        reasons = {table.get("reason") for table in answer["tables"]}
    return HINT if reasons & _OUTSIDE else None


async def _fetch(target: Target, arguments: argparse.Namespace) -> Fetched:
    resource = await target.pipeline()
    source = f"{naming.SINGULAR}/{target.name}"
    document = {
        "apiVersion": resource.get("apiVersion"),
        "kind": resource.get("kind"),
        # Kubernetes may give metadata fields that we have never heard of.
        "metadata": {"name": target.name, "namespace": target.namespace},
        "spec": resource.get("spec"),
    }
    pipeline = loading.parse_pipeline(document, source=source)
    local = LocalPipeline(source, document, document, pipeline)
    step = next_step.next_step(
        resource, status.parsed(resource), pipeline.spec, now=datetime.now(UTC)
    )
    names = () if arguments.secrets_dir is not None else secret_names(pipeline.spec)
    return Fetched(local, step, {name: await _secret(target, name) for name in names})


async def _secret(target: Target, name: str) -> dict[str, bytes]:
    where = f"the Secret {name!r} of the namespace {target.namespace}, which the pipeline names"
    instead = "or give its values by --secrets-dir"
    try:
        found = await target.api.get(kinds.SECRET, target.namespace, name)
    except errors.Denied as error:
        raise BadSpec(f"{where}, may not be read by you: {error.message}, {instead}") from error
    if found is None:
        raise BadSpec(f"{where}, is not there: create it, {instead}")
    data: dict[str, Any] = found.get("data") or {}
    return {key: _value(value, name, key) for key, value in data.items() if _is_file_name(key)}


def _value(encoded: str, name: str, key: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        # Without the cause, which would show it.
        raise BadSpec(f"the Secret {name!r} holds something else than base64 at {key!r}") from None


def _is_file_name(key: str) -> bool:
    """What Kubernetes allows as a key is; anything else must not become a path."""
    return "/" not in key and key not in ("", ".", "..")


def _written(folder: Path, secrets: dict[str, dict[str, bytes]]) -> Path:
    """In the shape of mounted Secrets. Everything below `folder` is for its owner alone."""
    for name, values in secrets.items():
        (folder / name).mkdir(mode=0o700)
        for key, value in values.items():
            path = folder / name / key
            path.touch(mode=0o600)
            path.write_bytes(value)
    return folder


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """SIGTERM and a terminal that is closed end the command as Ctrl-C does: cleanly."""

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _resolves(url: str) -> bool:
    try:
        socket.getaddrinfo(urlsplit(url).hostname, None)
    except (OSError, UnicodeError):
        return False
    return True


def _shown(url: str) -> str:
    """Without what may stand in it of credentials."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
