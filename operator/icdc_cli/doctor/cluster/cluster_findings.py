"""All that is checked in a cluster: what is read first, and then judged."""

import argparse

from icdc_cli.cluster.session import Target
from icdc_cli.doctor.cluster import cluster_checks, cluster_reading, pipeline_checks
from icdc_cli.doctor.cluster.cluster_facts import ClusterFacts
from icdc_cli.doctor.findings import Finding
from icdc_operator.cluster.kube.api_errors import Unavailable


async def examine_cluster(target: Target, _: argparse.Namespace) -> list[Finding]:
    """Return the findings about a cluster and the pipelines of the target's namespace.

    BadSpec for a NAME of which there is no pipeline.
    """
    return list_findings(await cluster_reading.read_cluster(target))


def list_findings(facts: ClusterFacts) -> list[Finding]:
    """Return the findings of every check. Of a server that does not answer, only that."""
    if isinstance(facts.version, Unavailable):
        return list(cluster_checks.check_server(facts))
    findings = [finding for check in cluster_checks.CHECKS for finding in check(facts)]
    return [*findings, *pipeline_checks.list_findings(facts)]
