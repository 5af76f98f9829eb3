"""Where the API server is and who asks: from the pod the process runs in, or from a kubeconfig.

Says nothing to the server yet. The environment is an argument, so that tests and callers choose.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration

from icdc_api.errors import BadSpec
from icdc_operator.cluster.kube import errors
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.kube.transport import REQUEST_SECONDS, Observer

KUBECONFIG = "KUBECONFIG"
IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
"""Set by the kubelet in every pod."""


@asynccontextmanager
async def open_api(
    env: Mapping[str, str],
    *,
    observer: Observer | None = None,
    context: str | None = None,
    request_seconds: float = REQUEST_SECONDS,
) -> AsyncIterator[ClusterApi]:
    """The API server that KUBECONFIG names, else that of the pod, else that of ~/.kube/config.

    BadSpec when none of them is there or can be read.
    """
    settings = await configuration(env, context=context)
    more = {} if observer is None else {"observer": observer}
    api = ClusterApi(ApiClient(settings), request_seconds=request_seconds, **more)
    try:
        yield api
    finally:
        await api.close()


async def configuration(env: Mapping[str, str], *, context: str | None = None) -> Configuration:
    """Address and credentials; `context` chooses one of a kubeconfig."""
    settings = Configuration()
    library: Any = config  # typed for a part only
    with errors.map_errors("the configuration of the cluster"):
        if IN_CLUSTER in env and not env.get(KUBECONFIG) and context is None:
            library.load_incluster_config(settings)
            return settings
        path = _kubeconfig(env)
        try:
            await library.load_kube_config(
                config_file=path,
                context=context,
                client_configuration=settings,
                persist_config=False,
            )
        except (LookupError, TypeError, AttributeError) as error:
            # The library takes the form of the file for granted.
            raise BadSpec(f"{path} is no kubeconfig: {type(error).__name__}: {error}") from error
    return settings


def _kubeconfig(env: Mapping[str, str]) -> str:
    """The path of the kubeconfig; several are separated as in PATH."""
    path = env.get(KUBECONFIG) or str(Path.home() / ".kube" / "config")
    present = [Path(each) for each in path.split(os.pathsep) if Path(each).is_file()]
    if not present:
        raise BadSpec(
            f"no cluster is known: this is no pod, and there is no kubeconfig at {path}; set "
            f"{KUBECONFIG}"
        )
    for each in present:
        try:
            document = yaml.safe_load(each.read_bytes())
        except (OSError, yaml.YAMLError) as error:
            raise BadSpec(f"{each} is no kubeconfig that can be read: {error}") from error
        if not isinstance(document, dict):
            raise BadSpec(f"{each} is no kubeconfig: it holds no mapping")
    return path
