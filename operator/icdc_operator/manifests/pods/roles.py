"""The two kinds of pods of a run."""

from enum import StrEnum


class Role(StrEnum):
    """What a pod does; the value is its field in `spec.spark`."""

    DRIVER = "driver"
    """Plans, reports, and owns the index by its epoch; one for each run."""
    EXECUTOR = "executor"
    """Reads rows and sends documents; as many as the spec allows."""

    @property
    def container(self) -> str:
        """Name of the main container, as spark-operator configures it for Spark."""
        return f"spark-kubernetes-{self.value}"
