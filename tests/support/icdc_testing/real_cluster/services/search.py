"""A real OpenSearch node of this host that pods reach as well: the target of the tests.

The node is the embedded one, which listens on loopback; here also on the bridge.
"""

from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.kube.server_process import LOOPBACK, HeldPort
from icdc_testing.real_cluster.host import layout, programs
from icdc_testing.real_cluster.host.layout import ClusterPaths
from icdc_testing.real_cluster.host.programs import Starter

NAME = "opensearch"


def start(starter: Starter) -> str:
    """Start it; return its URL for pods, once it answers. Started again after `stop`, it has the
    same data."""
    folder = starter.paths.run / NAME
    noted = folder.with_suffix(".port")
    if not noted.exists():
        held = HeldPort()
        noted.write_text(str(held.number), encoding="utf-8")
        # Java does not share a port. Whoever takes it in this moment is named by the error.
        held.release()
    port = int(noted.read_text(encoding="utf-8"))
    node = OpenSearchNode(
        folder,
        port=port,
        # Not the transport: beyond loopback OpenSearch takes itself for a node in production.
        settings={
            "http.bind_host": f"{LOOPBACK},{layout.ADDRESS}",
            "http.publish_host": LOOPBACK,
        },
        keep=True,
    )
    node.start()
    programs.record(starter.paths, NAME, node.pid)
    return f"http://{layout.ADDRESS}:{port}"


def stop(where: ClusterPaths) -> None:
    """Kill it, as a node that fails would."""
    programs.end(where, [NAME])
