"""What the manifests of one run are made from. Plain values; knows no manifest."""

from dataclasses import dataclass

from icdc_api.job import Reexport
from icdc_api.runs import RunStatus
from icdc_api.spec import PipelineSpec
from icdc_api.triggers import Ask


@dataclass(frozen=True)
class PipelineRef:
    """The pipeline that owns the run's objects."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True)
class InstallSettings:
    """What the operator was installed with."""

    image: str
    """Image of driver and executors where `spec.spark.image` names none."""
    image_pull_policy: str | None = None
    """Always, IfNotPresent or Never. Default: Spark's own, IfNotPresent."""
    image_pull_secrets: tuple[str, ...] = ()
    """Names of Secrets in the pipeline's namespace that the image is pulled with."""
    trusted_namespaces: tuple[str, ...] = ()
    """Namespaces whose pipelines may set the Spark properties that act with spark-operator's
    rights; "*" stands for all. Default: none."""

    def trusts(self, namespace: str) -> bool:
        """Whether pipelines of `namespace` may set them."""
        return not {namespace, "*"}.isdisjoint(self.trusted_namespaces)


@dataclass(frozen=True)
class Launch:
    """One attempt of one run, about to be created."""

    owner: PipelineRef
    run: RunStatus
    spec: PipelineSpec
    settings: InstallSettings
    continuous: bool = False
    """Whether it shall stay and follow its tables."""
    reexport: Reexport | None = None
    """What re-export its tables owe."""
    tables: tuple[str, ...] | None = None
    """The tables that a comparison is about; None for a run that follows all of them."""
    ask: Ask | None = None
    """The question that the run answers; None for a run that the spec wants."""

    @property
    def run_id(self) -> str:
        """Identity of this attempt, as its report repeats it."""
        return self.run.run_id or self.run.name
