"""What is tested on the cluster: our images, which it has loaded, as the chart gets them.

Knows those values of the operator's chart, and no pipeline.
"""

from typing import Any


def build_operator_values(loaded: list[str], namespaces: list[str]) -> dict[str, Any]:
    """Return values for the operator's chart: our images among those, these namespaces and no
    others."""
    return {
        "image": find_image(loaded, "operator"),
        "spark": {"image": find_image(loaded, "spark")},
        "watchNamespaces": namespaces,
        "readCatalogSecrets": True,
        # As a platform may choose it; charts of a release run as the user that they name.
        "podSecurityContext": {"runAsUser": 1_000_660_000, "runAsGroup": 0},
    }


def find_image(loaded: list[str], target: str) -> dict[str, str]:
    """Return the values of that image; AssertionError where the cluster does not have it."""
    images = [image for image in loaded if f"/{target}:" in image]
    assert images, f"the cluster has no image {target}: bring it up with --images; it has {loaded}"
    repository, _, tag = images[-1].rpartition(":")
    return {"repository": repository, "tag": tag, "pullPolicy": "Never"}
