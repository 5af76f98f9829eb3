"""Options of Data Prepper that have no counterpart, each with what to do instead.

Data alone. docs/from-data-prepper.md has the same options; a test compares the two.
"""

from collections.abc import Mapping

_NOTHING = "nothing to do: "

PIPELINE: Mapping[str, str] = {
    "workers": f"{_NOTHING}spec.spark.executor.instances and cores say how much is done at a time",
    "delay": f"{_NOTHING}there is no buffer to be read",
    "buffer": f"{_NOTHING}rows go from the table to the index without a buffer",
    "processor": "documents are the rows of the table: choose columns by tables[].columns and rows "
    "by tables[].rowFilter, and compute fields in a view or in the table itself",
    "prepper": "the old name of processor, see there",
    "route": "all rows of a table go to its index: use tables[].rowFilter, or one pipeline each",
}
"""Beside `source` and `sink`."""

SOURCE: Mapping[str, str] = {
    "acknowledgments": f"{_NOTHING}progress is stored only once OpenSearch has acknowledged it",
    "shuffle": f"{_NOTHING}Spark distributes rows, without ports or certificates of your own; see "
    "spec.spark.localVolumes for its disks",
}
"""Beside `catalog`, `tables` and `polling_interval`."""

ROUTING = (
    "documents are routed by their _id, or by columns among the identifier columns: see "
    "tables[].routing"
)

SERVERLESS = (
    "Amazon OpenSearch Serverless is not supported, as it has neither external versions nor the "
    "Tasks API: set hosts to a domain of Amazon OpenSearch Service, or to an OpenSearch of your own"
)

SINK: Mapping[str, str] = {
    "aws_sts_role_arn": "the role of the pod is used: give the service account in "
    "spec.spark.driver.serviceAccount that role (IRSA or EKS Pod Identity)",
    "max_retries": "see spec.retry: a failed run is repeated from where it stopped",
    "socket_timeout": "requests have a limit of their own",
    "connect_timeout": "requests have a limit of their own",
    "proxy": "set the chart value proxy, or HTTPS_PROXY: it is not part of a pipeline",
    "template_type": "see template_content",
    "template_file": "see template_content",
    "template_content": "the mapping is made from the columns: set tables[].mapping for single "
    "fields and sink.opensearch.indexSettings for settings. A template whose pattern fits the "
    "index still applies",
    "document_version": f"{_NOTHING}every write has a version that late writes cannot pass",
    "document_version_type": "see document_version",
    "dlq": f"{_NOTHING}refused rows are in <index>-dead-letters; see icdc dead-letters",
    "dlq_file": "see dlq",
    "ism_policy_file": "give the policy an ism_template with the pattern <index>-*; it must not "
    "roll over or delete",
    "distribution_version": "OpenSearch 2 and 3 are supported, Elasticsearch is not",
    "enable_request_compression": f"{_NOTHING}it is not configurable",
    "estimate_bulk_size_using_compression": f"{_NOTHING}see bulk_size",
    "max_local_compressions_for_estimation": f"{_NOTHING}see bulk_size",
    "flush_timeout": f"{_NOTHING}a request is sent when it is full and at the end of a batch",
    "normalize_index": f"{_NOTHING}index names that are derived from tables are always valid",
    "document_root_key": "documents are whole rows",
    "tags_target_key": "there are no tags",
    "exclude_keys": "name the other columns in tables[].columns",
    "pipeline": "name it in sink.opensearch.pipeline, with the fields that it adds; it may change "
    "no other",
    "serverless_options": "see serverless",
    "routes": "all rows of a table go to its index",
    "disable_authentication": f"{_NOTHING}without credentialsFrom there is none",
    "actions": "rows that are in the table are indexed, and deleted ones deleted",
    "action": "rows that are in the table are indexed, and deleted ones deleted",
}
"""Of the sink `opensearch`, beside those that `sinks` converts."""

AWS: Mapping[str, str] = {
    "sts_role_arn": SINK["aws_sts_role_arn"],
    "sts_external_id": "see sts_role_arn",
    "sts_header_overrides": "see sts_role_arn",
    "serverless_options": SINK["serverless_options"],
}
"""Of the sink's `aws`."""

TOP = frozenset({"version", "pipeline_configurations", "pipeline_extensions", "extensions"})
"""Keys of the file that are no pipelines."""
