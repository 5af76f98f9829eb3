"""Reads which process each node of OpenSearch is: a node that was restarted is another one."""

from collections.abc import Collection

from icdc_spark.opensearch.client.connection import Client
from icdc_spark.opensearch.client.target_errors import repeat_passing
from icdc_spark.opensearch.client.tasks import NODE_SECONDS


@repeat_passing
def read_processes(client: Client, nodes: Collection[str] = ()) -> dict[str, int]:
    """Return the mark of the process of each node in the cluster, by the node's id.

    A mark is when the process started, in milliseconds by the node's own clock, so that no two
    processes of a node have the same; it says nothing beside another clock. `nodes`: the ids that
    are asked for, or none for all. Empty where one of them does not answer.
    """
    answer = client.nodes.info(
        node_id=",".join(sorted(nodes)) or "_all",
        metric="jvm",
        params={
            "filter_path": "_nodes.failed,nodes.*.jvm.start_time_in_millis",
            "timeout": f"{NODE_SECONDS}s",
            # Without it the library takes the server's `timeout` for its own.
            "request_timeout": NODE_SECONDS + 30,
        },
    )
    if answer.get("_nodes", {}).get("failed"):
        return {}
    return {
        node: int(info["jvm"]["start_time_in_millis"])
        for node, info in answer.get("nodes", {}).items()
    }
