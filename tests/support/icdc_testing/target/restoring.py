"""Does to indices of a real node what administrators do: snapshots, restores, emptied shards."""

import json
import shutil
from typing import Any

from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.target.node_calls import call
from icdc_testing.waiting.wait import until

_REPOSITORY = "/_snapshot/tests"


def _do(url: str, method: str, path: str, body: object = None) -> dict[str, Any]:
    answer = call(url, method, path, body)
    assert answer.status == 200, answer.body
    content: dict[str, Any] = json.loads(answer.body)
    return content


def take_snapshot(node: OpenSearchNode, *indices: str) -> None:
    """Take the one snapshot there is, in place of an earlier one."""
    location = {"location": str(node.data_dir / "snapshots")}
    _do(node.url, "PUT", _REPOSITORY, {"type": "fs", "settings": location})
    call(node.url, "DELETE", f"{_REPOSITORY}/one")
    body = {"indices": ",".join(indices), "include_global_state": False}
    _do(node.url, "PUT", f"{_REPOSITORY}/one?wait_for_completion=true", body)


def restore(node: OpenSearchNode, *indices: str, close: bool = True, **how: object) -> None:
    """Restore indices from the snapshot: in place after closing them, or by a new name."""
    for index in indices if close else ():
        _do(node.url, "POST", f"/{index}/_close")
    body = {"indices": ",".join(indices), "include_global_state": False, **how}
    answer = _do(node.url, "POST", f"{_REPOSITORY}/one/_restore?wait_for_completion=true", body)
    assert not answer["snapshot"]["shards"]["failed"]


def empty_shard(node: OpenSearchNode, index: str, shard: int = 0) -> None:
    """Lose the files of a shard, and allocate it empty as an administrator would."""
    settings = _do(node.url, "GET", f"/{index}/_settings")[index]["settings"]["index"]
    _do(node.url, "POST", f"/{index}/_close")
    files = node.data_dir / "data/nodes/0/indices" / settings["uuid"] / str(shard)

    def remove() -> bool:
        # The node may still write into it for a moment after it has answered that it is closed.
        shutil.rmtree(files, ignore_errors=True)
        return not files.exists()

    until(remove, f"the files of shard {shard} are removed")
    _do(node.url, "POST", f"/{index}/_open?wait_for_active_shards=0")
    command = {"index": index, "shard": shard, "node": "embedded", "accept_data_loss": True}
    body = {"commands": [{"allocate_empty_primary": command}]}

    def allocate() -> bool:
        # Refused as long as the node still tries to open what is missing.
        return call(node.url, "POST", "/_cluster/reroute", body).status == 200

    until(allocate, f"shard {shard} of {index} is allocated empty")
    wait_until_green(node.url, index)


def wait_until_green(url: str, index: str) -> None:
    """Wait until every shard of the index is started."""
    _do(url, "GET", f"/_cluster/health/{index}?wait_for_status=green&timeout=60s")
