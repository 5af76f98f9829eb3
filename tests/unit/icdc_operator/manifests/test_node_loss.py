"""How long the pods of a run stay bound to a node that is lost."""

from collections.abc import Callable
from typing import Any

import pytest

from icdc_operator.manifests.application import build_spark_application
from icdc_operator.manifests.launch import Launch
from icdc_operator.manifests.pods.templates import NODE_LOSS_SECONDS

pytestmark = pytest.mark.unit

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
SPOT = {"key": "spot", "operator": "Exists"}


def build_ours(key: str) -> dict[str, Any]:
    """Our toleration of that taint."""
    seconds = {"tolerationSeconds": NODE_LOSS_SECONDS}
    return {"key": key, "operator": "Exists", "effect": "NoExecute", **seconds}


def build_toleration(key: str, **more: Any) -> dict[str, Any]:
    """Return a toleration of a user."""
    return {"key": key, "operator": "Exists", **more}


BOTH = [build_ours(NOT_READY), build_ours(UNREACHABLE)]
CASES: list[tuple[list[dict[str, Any]] | None, list[dict[str, Any]]]] = [
    (None, BOTH),
    ([], BOTH),
    ([SPOT], [SPOT, *BOTH]),
    (
        [build_toleration(UNREACHABLE, effect="NoExecute", tolerationSeconds=5)],
        [
            build_toleration(UNREACHABLE, effect="NoExecute", tolerationSeconds=5),
            build_ours(NOT_READY),
        ],
    ),
    ([build_toleration(NOT_READY)], [build_toleration(NOT_READY), build_ours(UNREACHABLE)]),
    (
        [build_toleration(NOT_READY, effect="NoSchedule")],
        [build_toleration(NOT_READY, effect="NoSchedule"), *BOTH],
    ),
    ([{"operator": "Exists"}], [{"operator": "Exists"}]),
    (
        [{"operator": "Exists", "effect": "NoSchedule"}],
        [{"operator": "Exists", "effect": "NoSchedule"}, *BOTH],
    ),
]


@pytest.mark.parametrize("role", ["driver", "executor"])
@pytest.mark.parametrize(("theirs", "expected"), CASES)
def test_a_pod_leaves_a_lost_node_soon_unless_the_user_says_when(
    launch: Callable[..., Launch],
    role: str,
    theirs: list[dict[str, Any]] | None,
    expected: list[dict[str, Any]],
) -> None:
    template = None if theirs is None else {"spec": {"tolerations": theirs}}
    made = launch(spark={role: {"template": template}})
    result = build_spark_application(made)["spec"][role]["template"]["spec"]["tolerations"]
    assert result == expected
