"""A cluster has our images of two builders, and tests say which of them they mean."""

import pytest

from icdc_testing.real_cluster.services import product

pytestmark = pytest.mark.unit

NAMES = [
    f"localhost/iceberg-cdc-operator/{target}:{tag}"
    for target in ("operator", "spark")
    for tag in ("0.1.0-buildkit", "0.1.0")
]


def test_images_are_told_apart_by_what_built_them() -> None:
    by_builder = product.group_by_builder(NAMES)
    assert by_builder == {"images": NAMES[1::2], "buildkitImages": NAMES[::2]}
    for fact, tag in (("images", "0.1.0"), ("buildkitImages", "0.1.0-buildkit")):
        values = product.build_operator_values(by_builder[fact], ["shops"])
        assert {values["image"]["tag"], values["spark"]["image"]["tag"]} == {tag}
