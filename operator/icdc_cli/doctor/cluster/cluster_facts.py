"""The facts by which `icdc doctor` judges a cluster.

A fact may be an error of the API server instead: few people may read everything, and the rest is
still judged. This module reads nothing; `cluster_reading` does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from icdc_api.errors import BadSpec
from icdc_api.spec.pipeline import PipelineSpec
from icdc_cli.doctor.cluster.rights import Grants
from icdc_operator.cluster.kube.api_errors import ClusterError
from icdc_operator.cluster.kube.kinds import Kind, Resource

# Here and not in `kinds`, since the operator reads none of them.
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
STORAGE_CLASS = Kind("storage.k8s.io/v1", "StorageClass", "storageclasses")
PRIORITY_CLASS = Kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses")
SERVICE_ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")

SPARK_CRD = "sparkapplications.sparkoperator.k8s.io"
OPERATOR_SELECTOR = (
    "app.kubernetes.io/part-of=iceberg-cdc-operator,app.kubernetes.io/component=operator"
)
"""Labels of the chart's Deployment and of its pods."""
SPARK_SELECTOR = "app.kubernetes.io/name=spark-operator,app.kubernetes.io/component=controller"
"""Labels of the Deployment of spark-operator's chart, 2.0 and later."""


@dataclass(frozen=True)
class Listed:
    """Objects of one kind."""

    items: tuple[Resource, ...] = ()
    """As the API has them."""
    everywhere: bool = True
    """Of all namespaces; False if only that of the pipelines could be listed."""


@dataclass(frozen=True)
class PipelineFacts:
    """One pipeline."""

    resource: Resource
    """As stored, with its status."""
    spec: PipelineSpec | BadSpec
    """The spec, or why this client refuses it."""

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.resource["metadata"]["name"])


@dataclass(frozen=True)
class ClusterFacts:
    """What was read of a cluster, and of the pipelines of one namespace."""

    namespace: str
    """Namespace of the pipelines."""
    client_version: str
    """Version of this `icdc`."""
    now: datetime
    """When it was read."""
    version: Resource | ClusterError
    """Answer of GET /version."""
    crd: Resource | ClusterError | None = None
    """Our CRD; None if there is none."""
    spark_crd: Resource | ClusterError | None = None
    """The CRD of SparkApplications; None if there is none."""
    operators: Listed | ClusterError = Listed()
    """Deployments of this operator."""
    operator_pods: Listed | ClusterError = Listed()
    """Pods of these Deployments."""
    spark_operators: Listed | ClusterError = Listed()
    """Deployments of spark-operator's controller."""
    pipelines: tuple[PipelineFacts, ...] | ClusterError = ()
    """All pipelines of the namespace, or only the named one."""
    secrets: Mapping[str, frozenset[str] | ClusterError | None] = field(default_factory=dict)
    """Keys of the Secrets that pipelines name; None for one that does not exist."""
    accounts: Mapping[str, bool | ClusterError] = field(default_factory=dict)
    """Whether each service account of drivers exists."""
    storage_classes: Mapping[str, bool] | ClusterError = field(default_factory=dict)
    """Whether each class is the default one."""
    priority_classes: frozenset[str] | ClusterError = frozenset()
    """Names of the priority classes."""
    driver_pods: Listed | ClusterError = Listed()
    """Driver pods of the pipelines."""
    caller: Grants | ClusterError = field(default_factory=dict)
    """What the caller may do in the namespace."""
    grants: Mapping[str, Grants | ClusterError] = field(default_factory=dict)
    """What the accounts of operators and drivers (`namespace:name`) may do there."""
