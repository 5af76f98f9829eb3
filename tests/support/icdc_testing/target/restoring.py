"""Does to indices of a real node what administrators and disks do: snapshots, lost files."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.target.node_calls import call
from icdc_testing.waiting.children import OUTLIVING
from icdc_testing.waiting.wait import wait_until

_REPOSITORY = "/_snapshot/tests"
_PARTS = ("index", "translog")
"""Folders of a shard that have its documents; beside them is which allocation it has."""


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


@contextmanager
def take_slowly(node: OpenSearchNode, *indices: str) -> Iterator[None]:
    """Take a snapshot of small indices that is not complete before the block ends."""
    path, location = "/_snapshot/slow", str(node.data_dir / "slow")
    settings = {"location": location, "max_snapshot_bytes_per_sec": "500b"}
    _do(node.url, "PUT", path, {"type": "fs", "settings": settings})
    try:
        _do(node.url, "PUT", f"{path}/one", {"indices": ",".join(indices)})
        yield
    finally:
        call(node.url, "DELETE", f"{path}/one")
        call(node.url, "DELETE", path)


def empty_shard(node: OpenSearchNode, index: str, shard: int = 0) -> None:
    """Lose the files of a shard, and allocate it empty as an administrator would."""
    files = _find_files(node, index, shard)
    _do(node.url, "POST", f"/{index}/_close")

    def remove() -> bool:
        # The node may still write into it for a moment after it has answered that it is closed.
        shutil.rmtree(files, ignore_errors=True)
        return not files.exists()

    wait_until(remove, f"the files of shard {shard} are removed")
    _do(node.url, "POST", f"/{index}/_open?wait_for_active_shards=0")
    command = {"index": index, "shard": shard, "node": "embedded", "accept_data_loss": True}
    body = {"commands": [{"allocate_empty_primary": command}]}

    def allocate() -> bool:
        # Refused as long as the node still tries to open what is missing.
        return call(node.url, "POST", "/_cluster/reroute", body).status == 200

    wait_until(allocate, f"shard {shard} of {index} is allocated empty")
    wait_until_green(node.url, index)


def save_files(node: OpenSearchNode, index: str, to: Path) -> None:
    """Copy the documents of the first shard as they are on the disk; nobody must write them."""
    _do(node.url, "POST", f"/{index}/_flush?force=true")
    for part in _PARTS:
        shutil.copytree(_find_files(node, index) / part, to / part)


def put_files_back(node: OpenSearchNode, index: str, saved: Path) -> None:
    """Lose what was written since `save_files`, as a disk does that had lied about it.

    The history is what it was, and numbers go on from those of then.
    """
    files = _find_files(node, index)
    node.port = urlsplit(node.url).port or 0
    # A node that runs may write a shard after it has answered that it is closed, and one that
    # then misses files never gives up the lock on them.
    node.stop()
    for part in _PARTS:
        shutil.rmtree(files / part)
        shutil.copytree(saved / part, files / part)
    node.start()
    OUTLIVING.add(node.pid)  # whose node it is stops it
    wait_until_green(node.url, index)


def _find_files(node: OpenSearchNode, index: str, shard: int = 0) -> Path:
    settings = _do(node.url, "GET", f"/{index}/_settings")[index]["settings"]["index"]
    return node.data_dir / "data/nodes/0/indices" / str(settings["uuid"]) / str(shard)


def wait_until_green(url: str, index: str) -> None:
    """Wait until every shard of the index is started."""
    _do(url, "GET", f"/_cluster/health/{index}?wait_for_status=green&timeout=60s")
