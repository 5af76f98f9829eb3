"""The request of a run and a question to it, and the ConfigMaps that carry them to the driver.

Holds no value of a Secret: Secrets are mounted. `${ENV}` is not replaced in a cluster, where the
environment is the operator's and not that of the pipeline's author.
"""

import json
from collections.abc import Mapping
from typing import Any

from icdc_api import naming
from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunQuestion, RunRequest
from icdc_operator.manifests import metadata
from icdc_operator.manifests.launch import Launch
from icdc_operator.manifests.pods import pod_paths
from icdc_operator.manifests.secret_names import list_secret_names

UNREAD = ("resync", "verify", "history", "timeouts")
"""Fields of the spec that only the operator reads: a run does not end for their sake. What resync
asks of a run is in its request, or in a question to it."""

MAX_READABLE_BYTES = 500_000
"""Greatest size of a request that is written with line breaks and indented, for people. Without
them it always fits: Kubernetes allows 1 MiB for all data of a ConfigMap and its keys, and `limits`
bounds the spec."""


def build_request(launch: Launch, resource: Mapping[str, Any]) -> RunRequest:
    """Return the request of the run. `resource`: the pipeline as the API server has it.

    Status and managed fields are omitted: the run does not need them, and they are large.
    """
    owner, spec, kind, ask = launch.owner, launch.spec, launch.run.kind, launch.ask
    return RunRequest(
        run_id=launch.run_id,
        mode=RunMode.of(kind),
        tables=launch.tables,
        ids=None if ask is None else ask.ids,
        only=None if ask is None else ask.tables,
        documents=None if ask is None else ask.documents,
        reexport=launch.reexport,
        pipeline={
            "apiVersion": naming.API_VERSION,
            "kind": naming.KIND,
            "metadata": {"name": owner.name, "namespace": owner.namespace},
            # An older image refuses a field that it does not know.
            "spec": {key: value for key, value in resource["spec"].items() if key not in UNREAD},
        },
        owner=naming.build_owner_key(owner.namespace, owner.name),
        epoch=launch.run.epoch,
        continuous=launch.takes_questions,
        poll_seconds=spec.changelog.poll_interval_seconds,
        linger_seconds=launch.linger_seconds,
        report_path=pod_paths.REPORT_FILE,
        secrets_dir=pod_paths.SECRETS_DIR if list_secret_names(spec) else None,
    )


def build_config_map(launch: Launch, request: RunRequest) -> dict[str, Any]:
    """Return the ConfigMap, named like the run. It fits: the spec was checked, see `limits`."""
    document = request.to_resource()
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if len(text.encode()) > MAX_READABLE_BYTES:
        text = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata.build_object_metadata(launch),
        # The request of a run never changes: a change of the pipeline starts another run. The
        # kubelet also stops watching an immutable ConfigMap.
        "immutable": True,
        "data": {pod_paths.REQUEST_KEY: text},
    }


def build_question_map(launch: Launch, question: RunQuestion) -> dict[str, Any]:
    """Return the ConfigMap of a question. It fits: the names of tables are a part of the spec."""
    text = json.dumps(question.to_resource(), sort_keys=True) + "\n"
    name = metadata.name_question_map(launch.run.name)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata.build_object_metadata(launch) | {"name": name},
        # Not immutable, although it is never changed: the next question has a ConfigMap of the same
        # name, and the kubelet would not notice it.
        "data": {pod_paths.QUESTION_KEY: text},
    }
