"""Loads images into a node from OCI archives, and keeps the store from growing for ever.

Only tests/cluster/test_upgrade.py has a registry, of its own. All other pods say `imagePullPolicy:
Never` or `IfNotPresent`, and no registry is asked.
"""

import json
import tempfile
import time
from pathlib import Path

from icdc_api.errors import BadSpec
from icdc_testing.kube import binaries
from icdc_testing.real_cluster.host.layout import NodePaths
from icdc_testing.real_cluster.node import containers, oci

POD_IMAGE = "localhost/iceberg-cdc-operator/test-pod:1"
"""Runs tests/tools/pod."""
SPARK_OPERATOR_IMAGE = "localhost/iceberg-cdc-operator/spark-operator:1"
"""The program alone: what its webhook needs."""

# Of each repository: what is built now, and what was before, by whichever builder.
_RETAINED = 3
_LOADED = "loaded.json"
_REGISTRY = "localhost"
_BLOBS = Path("io.containerd.content.v1.content", "blobs", "sha256")


def load_own(at: NodePaths) -> None:
    """Load what every cluster needs: the container that holds a pod, the one of tests, and that
    of spark-operator."""
    own = {
        "pause": containers.PAUSE_IMAGE,
        "pod": POD_IMAGE,
        "spark-operator": SPARK_OPERATOR_IMAGE,
    }
    for program, name in own.items():
        with tempfile.TemporaryDirectory(prefix="icdc-image-") as scratch:
            archive = Path(scratch) / "image.tar"
            oci.write(archive, name, binaries.ensure_program(program))
            load(at, archive)


def load(at: NodePaths, archive: Path) -> list[str]:
    """Load the archive; return the names of its images, which pods can now use.

    Costs nothing where the store has them. BadSpec for an archive that gives no name.
    """
    present = _list_present(at)
    wanted = {complete_name(image.name): image.digest for image in oci.list_images(archive)}
    if "" in wanted:
        raise BadSpec(f"{archive} does not say what its image is called.")
    if any(present.get(name) != digest for name, digest in wanted.items()):
        _import(at, archive, wanted)
    _remember(at, wanted)
    return list(wanted)


def remove_pulled(at: NodePaths, registry: str) -> None:
    """Remove the images that the node has from that registry, which is to go."""
    names = [name for name in _list_present(at) if name.startswith(f"{registry}/")]
    if names:
        containers.run_ctr(at, "images", "remove", *names)


def copy(source: NodePaths, at: NodePaths, name: str) -> None:
    """Give a node an image that another has. Costs nothing where it has it, too.

    BadSpec where the other has none of that name.
    """
    digest = _list_present(source).get(name)
    if digest is None:
        raise BadSpec(f"{source.node.name} has no image {name}.")
    if _list_present(at).get(name) != digest:
        # Nothing of it is written twice: most layers are those of the image before.
        digests = set(containers.run_ctr(at, "content", "list", "--quiet").split())
        blobs = source.images / _BLOBS
        # Not in memory: a layer may have half a gigabyte.
        with tempfile.TemporaryDirectory(prefix="icdc-image-", dir=at.images) as scratch:
            archive = Path(scratch) / "image.tar"
            oci.collect(archive, name, digest, blobs, without=digests)
            _import(at, archive, {name: digest})
    _remember(at, {name: digest})


def find_manifest(at: NodePaths, name: str) -> Path:
    """Return the manifest of an image of the store, as a file beside all other blobs.

    BadSpec where the store has none of that name.
    """
    digest = _list_present(at).get(name)
    if digest is None:
        raise BadSpec(f"{at.node.name} has no image {name}.")
    return at.images / _BLOBS / digest.removeprefix("sha256:")


def complete_name(name: str) -> str:
    """Return the name that pods use: with registry and tag. "" stays as it is.

    The kubelet would look for a name without a registry in a public one; `localhost` is none.
    """
    if not name:
        return ""
    first = name.partition("/")[0]
    if first == name or ("." not in first and ":" not in first and first != _REGISTRY):
        name = f"{_REGISTRY}/{name}"
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _import(at: NodePaths, archive: Path, wanted: dict[str, str]) -> None:
    """Import, and give the images the names by which the kubelet asks for them.

    containerd takes the names of an archive as they are, or makes some from digests.
    """
    base = "icdc-import"
    before = _list_present(at)
    containers.run_ctr(at, "images", "import", "--digests", "--base-name", base, str(archive))
    for name, digest in wanted.items():
        name_of_digest = next(
            name for name, present in _list_present(at).items() if present == digest
        )
        if name_of_digest != name:
            containers.run_ctr(at, "images", "tag", "--force", name_of_digest, name)
    expected_names = {*before, *wanted}
    extra = [
        name
        for name in _list_present(at)
        if name not in expected_names and not name.startswith("sha")
    ]
    if extra:
        containers.run_ctr(at, "images", "remove", *extra)


def _list_present(at: NodePaths) -> dict[str, str]:
    """Return the images of the store: names and digests."""
    lines = containers.run_ctr(at, "images", "list").splitlines()[1:]
    columns = [line.split() for line in lines]
    return {columns_of_image[0]: columns_of_image[2] for columns_of_image in columns}


def _remember(at: NodePaths, names: dict[str, str]) -> None:
    """Note that these were used, and remove what was used least lately of each repository."""
    path = at.images / _LOADED
    used: dict[str, float] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    used |= dict.fromkeys(names, time.time())
    by_repository: dict[str, list[str]] = {}
    for name in sorted(used, key=lambda name: used[name], reverse=True):
        by_repository.setdefault(name.rpartition(":")[0], []).append(name)
    old = [name for names in by_repository.values() for name in names[_RETAINED:]]
    present = _list_present(at)
    if any(name in present for name in old):
        containers.run_ctr(at, "images", "remove", *(name for name in old if name in present))
    retained = {name: used[name] for name in used if name not in old}
    path.write_text(json.dumps(retained), encoding="utf-8")
