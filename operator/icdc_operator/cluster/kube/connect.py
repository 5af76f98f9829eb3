"""Find the API server and the credentials: from this pod, or from a kubeconfig.

    KUBECONFIG is set                  that file
    else KUBERNETES_SERVICE_HOST       the pod's ServiceAccount
    else                               ~/.kube/config

Sends no request. The environment is an argument, so that tests and callers choose it.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration

from icdc_api.errors import BadSpec
from icdc_operator.cluster.kube import api_errors, environment
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.kube.transport import REQUEST_SECONDS, Observer, TimeLimit

KUBECONFIG = environment.KUBECONFIG
IN_CLUSTER = environment.IN_CLUSTER


class LibraryClient(ApiClient):
    """The library's client, with time limits in the form that `transport` gives them."""

    async def call_api(self, *request: Any, **options: Any) -> Any:
        """Send one request; raises the errors of aiohttp."""
        limit: TimeLimit = options["_request_timeout"]
        timeout = aiohttp.ClientTimeout(total=limit.total, sock_connect=limit.connect)
        return await super().call_api(*request, **{**options, "_request_timeout": timeout})


@asynccontextmanager
async def open_api(
    env: Mapping[str, str],
    *,
    observer: Observer | None = None,
    context: str | None = None,
    request_seconds: float = REQUEST_SECONDS,
) -> AsyncIterator[ClusterApi]:
    """Open the API server for the block, as the module says.

    Raises BadSpec if no configuration exists or can be read.
    """
    settings = await load_configuration(env, context=context)
    more = {} if observer is None else {"observer": observer}
    api = ClusterApi(LibraryClient(settings), request_seconds=request_seconds, **more)
    try:
        yield api
    finally:
        await api.close()


async def load_configuration(
    env: Mapping[str, str], *, context: str | None = None
) -> Configuration:
    """Return address and credentials; `context` selects one of a kubeconfig."""
    settings = Configuration()
    library: Any = config  # typed for a part only
    with api_errors.map_errors("the configuration of the cluster"):
        if IN_CLUSTER in env and not env.get(KUBECONFIG) and context is None:
            library.load_incluster_config(settings)
            return settings
        path = _find_kubeconfig(env)
        try:
            await library.load_kube_config(
                config_file=path,
                context=context,
                client_configuration=settings,
                # A token that is renewed on the way must not be written into the user's file.
                persist_config=False,
            )
        except (LookupError, TypeError, AttributeError) as error:
            # The library checks nothing of the file's structure.
            raise BadSpec(f"{path} is not a kubeconfig: {type(error).__name__}: {error}") from error
    return settings


def _find_kubeconfig(env: Mapping[str, str]) -> str:
    """Return the path of the kubeconfig; several files are separated as in PATH."""
    path = env.get(KUBECONFIG) or str(Path.home() / ".kube" / "config")
    present = [Path(name) for name in path.split(os.pathsep) if Path(name).is_file()]
    if not present:
        raise BadSpec(
            f"no cluster is configured: this is not a pod, and there is no kubeconfig at {path}; "
            f"set {KUBECONFIG}"
        )
    # Checked here, because the library reports a broken file by whatever error it runs into.
    for file in present:
        try:
            document = yaml.safe_load(file.read_bytes())
        except (OSError, yaml.YAMLError) as error:
            raise BadSpec(f"the kubeconfig {file} cannot be read: {error}") from error
        if not isinstance(document, dict):
            raise BadSpec(f"{file} is not a kubeconfig: it contains no mapping")
    return path
