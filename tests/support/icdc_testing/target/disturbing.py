"""Other hands in an index that an export fills, at the moment before it is counted."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from icdc_api.status.pipeline_status import TableStatus
from icdc_spark.protocol.state_document import compute_base_version
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.target.node_calls import call

Disturb = Callable[[str, str], None]
"""Does something by the URL of a node to an index."""


def insert_foreign(url: str, index: str) -> None:
    """Add a document that no row has."""
    assert call(url, "PUT", f"/{index}/_doc/foreign", {"id": 77}).status == 201


def delete_first(url: str, index: str) -> None:
    """Delete document 1."""
    assert call(url, "DELETE", f"/{index}/_doc/1").status == 200


def edit_first(url: str, index: str) -> None:
    """Replace document 1, so that the number of documents stays."""
    assert call(url, "PUT", f"/{index}/_doc/1", {"id": 1, "name": "edited"}).status == 200


def delete_index(url: str, index: str) -> None:
    """Delete the index itself."""
    assert call(url, "DELETE", f"/{index}").status == 200


def write_newer(url: str, index: str) -> None:
    """Write document 1 with the version of a later batch."""
    path = f"/{index}/_doc/1?version={compute_base_version(99)}&version_type=external"
    assert call(url, "PUT", path, {"id": 1, "name": "newer"}).status == 201


def list_aliased(url: str, alias: str) -> list[str]:
    """Return the indices that readers of an alias see."""
    answer = call(url, "GET", f"/_alias/{alias}")
    return sorted(answer.json) if answer.status == 200 else []


def run_disturbed(
    pipeline: Harness,
    proxy: FaultProxy,
    url: str,
    disturb: Disturb,
    indices: Sequence[str],
    *,
    before: str = "_settings",
) -> TableStatus:
    """Return the table after a run that is disturbed before each of these indices is counted.

    `before`: the request before which it is disturbed; that of the count, or `_bulk`.
    """
    method = "POST" if before == "_bulk" else "PUT"
    holds = [proxy.hold(f"^/{index}/{before}(\\?|$)", method=method) for index in indices]
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(pipeline.run)
        for index, held in zip(indices, holds, strict=True):
            held.wait()
            disturb(url, index)
            held.release()
        (status,) = running.result(120).tables
    return status
