"""Name the kinds of objects that the operator uses, and build their paths in the API. Pure.

PIPELINE.build_path("team", "shop", "status")
/apis/icebergcdc.dev/v1alpha1/namespaces/team/icebergcdcpipelines/shop/status
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from icdc_api import naming
from icdc_api.errors import Bug
from icdc_operator.manifests import spark_kind

Resource = dict[str, Any]
"""An object as the API has it, in plain JSON values."""


def decode_secret(secret: Resource) -> dict[str, bytes]:
    """Return the values of a Secret by key; the API has them in base64."""
    data: Mapping[str, str] = secret.get("data") or {}
    return {key: base64.b64decode(text) for key, text in data.items()}


@dataclass(frozen=True)
class Kind:
    """One kind of objects."""

    api_version: str
    """Group and version, or only the version for the core group."""
    name: str
    """Such as Pod."""
    plural: str
    """The name in paths and permissions, such as pods."""

    def build_path(self, namespace: str | None, name: str | None = None, *, below: str = "") -> str:
        """Return the path of an object, of its subresource `below`, or of a list without `name`.

        `namespace` None: the list of all namespaces, or an object of a kind without namespaces.
        """
        root = "/apis" if "/" in self.api_version else "/api"
        parts = [root, self.api_version]
        if namespace is not None:
            # Both are quoted: on a command line a name may be anything, such as `../secrets`.
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name is not None:
            parts.append(quote(name, safe=""))
        if below:
            parts.append(below)
        return "/".join(parts)


PIPELINE = Kind(naming.API_VERSION, naming.KIND, naming.PLURAL)
APPLICATION = Kind(spark_kind.API_VERSION, spark_kind.KIND, "sparkapplications")
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
POD = Kind("v1", "Pod", "pods")
EVENT = Kind("events.k8s.io/v1", "Event", "events")
SECRET = Kind("v1", "Secret", "secrets")
CRD = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions")
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")

# Without SECRET and CRD: the operator reads Secrets of catalogs and the command line reads the CRD,
# and neither creates or writes one.
KINDS: Mapping[tuple[str, str], Kind] = {
    (kind.api_version, kind.name): kind
    for kind in (PIPELINE, APPLICATION, CONFIG_MAP, POD, EVENT, LEASE)
}


def find_kind(resource: Resource) -> Kind:
    """Return the kind of an object that this package created."""
    key = (resource.get("apiVersion", ""), resource.get("kind", ""))
    kind = KINDS.get(key)
    if kind is None:
        raise Bug(f"no kind of object that the operator knows: {' '.join(key)}")
    return kind
