"""The input of the manifests of one run. Plain values; knows no manifest."""

from dataclasses import dataclass

from icdc_api.job.run_files import Reexport
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.runs import RunStatus
from icdc_api.status.triggers import Ask


@dataclass(frozen=True)
class PipelineRef:
    """The pipeline that owns the run's objects."""

    namespace: str
    """Namespace of the pipeline, and so of all objects of its runs."""
    name: str
    """Name of the pipeline."""
    uid: str
    """UID of the pipeline, for the owner reference."""


@dataclass(frozen=True)
class InstallSettings:
    """Settings of the operator's installation."""

    image: str
    """Image of driver and executors where `spec.spark.image` is not set."""
    image_pull_policy: str | None = None
    """Always, IfNotPresent or Never. Default: that of Spark, IfNotPresent."""
    image_pull_secrets: tuple[str, ...] = ()
    """Names of image pull Secrets in the pipeline's namespace."""
    trusted_namespaces: tuple[str, ...] = ()
    """Namespaces whose pipelines may set Spark properties that take effect with the permissions of
    spark-operator; "*" for all. Default: none."""

    proxies: tuple[tuple[str, str], ...] = ()
    """Variables of driver and executors that name forward proxies, each with its value."""
    ipv6: bool = False
    """Whether the first addresses of pods are of IPv6, as in a cluster of IPv6 alone."""

    log_format: str | None = None
    """Format of the drivers' logs, json or text; None leaves it to the image."""

    def trusts(self, namespace: str) -> bool:
        """Return whether pipelines of `namespace` may set such properties."""
        return not {namespace, "*"}.isdisjoint(self.trusted_namespaces)


@dataclass(frozen=True)
class Launch:
    """One attempt of one run, about to be created."""

    owner: PipelineRef
    """The pipeline."""
    run: RunStatus
    """Record of the attempt: name, epoch and kind."""
    spec: PipelineSpec
    """Spec of the pipeline at the generation of the run."""
    settings: InstallSettings
    """Settings of the operator."""
    continuous: bool = False
    """Whether the application keeps running and polls its tables."""
    linger_seconds: int | None = None
    """Seconds that the run waits for the next commit; None for one that ends at once."""
    reexport: Reexport | None = None
    """The re-export that its tables owe."""
    tables: tuple[str, ...] | None = None
    """Tables to compare; None for a run that replicates all of them."""
    max_cpu: float | None = None
    """CPU limit of its executor; None for executors as the spec has them."""
    ask: Ask | None = None
    """The question that the run answers; None for a run that the spec wants."""
    short: bool = False
    """Whether it is expected to end within a minute, so that its JVMs need not optimise code."""

    @property
    def takes_questions(self) -> bool:
        """True if the run can be asked something while it goes on."""
        return self.continuous and not self.run.kind.inspects

    @property
    def run_id(self) -> str:
        """Identity of this attempt, which its report repeats."""
        return self.run.run_id or self.run.name
