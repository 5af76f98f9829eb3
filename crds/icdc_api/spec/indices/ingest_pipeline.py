"""`spec.sink.opensearch.pipeline`: an ingest pipeline of the user's, for the fields that it adds.

    pipeline:
      name: embed
      adds:
        embedding: {type: knn_vector, dimension: 384}

OpenSearch runs it on each document that is written. What it adds is in the mapping and is left out
where index and table are compared; all else must come out of it as it went in.
"""

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from icdc_api.base import ApiModel
from icdc_api.problems import build_problem, build_refusal
from icdc_api.spec.indices.fields import ColumnName, FieldMapping, find_name_problem

NO_PIPELINE = "_none"
"""OpenSearch's word for no pipeline, in a request as in settings of an index."""


METADATA_FIELDS = frozenset({"_version_type", "_if_seq_no", "_if_primary_term"})
"""Names of fields that a pipeline takes for metadata; without one they are fields like others."""

PIPELINE_NAME_RULE = "name the pipeline that adds these fields"


class IngestPipeline(ApiModel):
    """An ingest pipeline of the cluster, which OpenSearch runs on each document."""

    # None and not "": as lingerSeconds in `changelog`.
    name: Annotated[str, StringConstraints(max_length=256)] | None = None
    """Name of the pipeline in the cluster. Default empty: none."""
    adds: Annotated[dict[ColumnName, FieldMapping], Field(max_length=100)] = Field(
        default_factory=dict
    )
    """Mapping of each top-level field that it adds, by the name of the field. Default empty. A
    document in which it changes anything else stalls the table."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.name and (self.name == NO_PIPELINE or self.name != self.name.strip()):
            rule = "it must be the name of an ingest pipeline, without blanks around it"
            raise build_refusal(self.name, f"{rule}, and not {NO_PIPELINE}", "name")
        if self.adds and not self.name:
            raise build_problem(f"missing; {PIPELINE_NAME_RULE}", "name")
        for field in self.adds:
            problem = find_name_problem(field)
            if not problem and "." in field:
                problem = "it must be a top-level field: its mapping may have properties"
            if problem:
                raise build_refusal(field, problem, "adds", field)
        return self
