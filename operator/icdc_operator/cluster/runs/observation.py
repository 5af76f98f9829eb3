"""Hold one reading of a pipeline: the input of `decide`, and the objects that its actions need.

It must not know how either was read: `adapter` does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs.seen import RunObjects
from icdc_operator.core.observed import Observed
from icdc_operator.manifests.launch import PipelineRef


@dataclass(frozen=True)
class Observation:
    """A pipeline as it was read: the input of `decide`, and the objects behind it."""

    pipeline: Resource
    """The object as it was read or written last, with its uid and resourceVersion."""
    observed: Observed
    """The input of `decide`."""
    runs: Sequence[RunObjects] = ()
    """The objects of each attempt, for the actions."""

    @property
    def owner(self) -> PipelineRef:
        """Return the pipeline as the owner of runs."""
        metadata = self.pipeline["metadata"]
        return PipelineRef(metadata["namespace"], metadata["name"], metadata["uid"])
