"""Save the middle of a story and start other trials from it, so that its beginning is played once.

All objects of a pipeline are read from the server and created again under another name, as from a
backup. Only what the server assigns (uids, resourceVersions, its own times) differs.
"""

import json
from dataclasses import dataclass
from typing import Any

from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.api import MERGE_PATCH, ClusterApi
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.kube.transport import Transport

OWNED = (kinds.APPLICATION, kinds.CONFIG_MAP, kinds.POD)
"""Kinds of what belongs to a run; a pod belongs to its SparkApplication."""


@dataclass(frozen=True)
class Seed:
    """A pipeline and all that belongs to it."""

    name: str
    seconds: float
    """How old the story was."""
    pipeline: Resource
    objects: tuple[Resource, ...]
    applied: dict[str, int]
    """See `Witness.applied`."""


async def plant(seed: Seed, api: ClusterApi, transport: Transport, name: str) -> list[Resource]:
    """Create it all under that name: the objects as they are then, the pipeline first."""
    pipeline = await _create(_rename(seed.pipeline, seed.name, name), {}, api)
    status = _rename(seed.pipeline, seed.name, name).get("status") or {}
    pipeline = await api.replace_status(pipeline, status)
    made, uids = [pipeline], {name: pipeline["metadata"]["uid"]}
    for item in seed.objects:
        wanted = _rename(item, seed.name, name)
        fresh = await _create(wanted, uids, api)
        kind = kinds.find_kind(fresh)
        if kind is kinds.APPLICATION:
            uids[fresh["metadata"]["name"]] = fresh["metadata"]["uid"]
        if wanted.get("status"):
            path = kind.build_path(
                fresh["metadata"]["namespace"], fresh["metadata"]["name"], below="status"
            )
            body = {"status": wanted["status"]}
            fresh = await transport.ask(
                "patch", kind.plural, method="PATCH", path=path, body=body, content=MERGE_PATCH
            )
        made.append(fresh)
    return made


async def _create(wanted: Resource, uids: dict[str, str], api: ClusterApi) -> Resource:
    fields = ("name", "namespace", "labels", "annotations", "ownerReferences", "finalizers")
    metadata = {key: wanted["metadata"][key] for key in fields if key in wanted["metadata"]}
    for owner in metadata.get("ownerReferences", ()):
        owner["uid"] = uids[owner["name"]]
    body = {key: value for key, value in wanted.items() if key != "status"}
    return await api.create({**body, "metadata": metadata})


def _rename(resource: Resource, before: str, after: str) -> Resource:
    renamed: dict[str, Any] = json.loads(json.dumps(resource).replace(before, after))
    return renamed
