"""What an update may change, and what writes of users and of the operator leave alone."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from icdc_api.status.pipeline_status import UNOBSERVED, PipelineStatus, parse_status
from icdc_testing.kube import kstatus
from icdc_testing.kube.api_server import SHOWN_OBJECT
from icdc_testing.kube.kstatus import Verdict
from icdc_testing.kube.stored_pipelines import SAMPLES, Pipelines, make_condition, make_minimal

pytestmark = pytest.mark.api

STATUS = {
    "phase": "Streaming",
    "observedGeneration": 1,
    "observedTriggers": {"restartNonce": 1, "resyncNonce": 1},
    "conditions": [make_condition("Ready", "True")],
}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            {"restartNonce": 2},
            {"restartNonce": 1},
            "spec.restartNonce cannot be lowered",
        ),
        (
            {"resync": {"nonce": 2}},
            {"resync": {"nonce": 1}},
            "spec.resync.nonce cannot be lowered",
        ),
        # An absent field is its default, which is 0.
        ({"restartNonce": 2}, {}, "spec.restartNonce cannot be lowered"),
        ({"resync": {"nonce": 2}}, {}, "spec.resync.nonce cannot be lowered"),
        ({"resync": {"nonce": 2}}, {"resync": {}}, "spec.resync.nonce cannot be lowered"),
    ],
)
def test_a_nonce_that_shrinks_is_refused(
    pipelines: Pipelines, before: dict[str, Any], after: dict[str, Any], message: str
) -> None:
    stored = pipelines.apply(make_minimal(**before))
    ran = pipelines.try_to_apply(make_minimal(**after))
    assert ran.code != 0
    assert message in ran.err
    assert pipelines.get() == stored


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"restartNonce": 2}, {"restartNonce": 3}),
        ({"restartNonce": 2}, {"restartNonce": 2, "suspend": True}),
        ({}, {"restartNonce": 1}),
        ({"resync": {"nonce": 2}}, {"resync": {"nonce": 3, "mode": "Repair"}}),
        ({}, {"resync": {"nonce": 1, "tables": ["shop.orders"]}}),
    ],
)
def test_a_nonce_may_grow_or_stay(
    pipelines: Pipelines, before: dict[str, Any], after: dict[str, Any]
) -> None:
    first = pipelines.apply(make_minimal(**before))
    second = pipelines.apply(make_minimal(**after))
    assert second["metadata"]["generation"] == first["metadata"]["generation"] + 1


@pytest.mark.parametrize("spec", [{}, {"suspend": True, "restartNonce": 4}])
def test_applying_the_same_again_changes_nothing(
    pipelines: Pipelines, spec: dict[str, Any]
) -> None:
    pipelines.apply(make_minimal(**spec))
    # Until a status is written, the server fills one in, and stores that with the next write.
    pipelines.patch_status(STATUS)
    first = pipelines.get()
    assert pipelines.apply(make_minimal(**spec)) == first


def test_applying_a_file_again_as_users_do_changes_nothing(pipelines: Pipelines) -> None:
    path = str(SAMPLES / "full.yaml")
    assert pipelines.run_ok("apply", "-f", path).endswith("created\n")
    first = pipelines.get()
    assert pipelines.run_ok("apply", "-f", path).endswith("unchanged\n")
    assert pipelines.get() == first


def test_a_write_of_the_spec_leaves_the_status_alone(pipelines: Pipelines) -> None:
    pipelines.apply(make_minimal())
    pipelines.patch_status(STATUS)
    resource = make_minimal(suspend=True) | {"status": {"phase": "Stalled"}}
    written = pipelines.apply(resource)
    assert written["spec"]["suspend"] is True
    assert written["metadata"]["generation"] == 2
    assert written["status"] == STATUS


def test_a_write_of_the_status_leaves_the_spec_and_its_generation_alone(
    pipelines: Pipelines,
) -> None:
    before = pipelines.apply(make_minimal())
    patch = '{"spec": {"suspend": true}, "status": {"phase": "Streaming"}}'
    how = ("--subresource=status", "--type=merge", "-p", patch)
    pipelines.run_ok("patch", "icdc", "shop", *how)
    after = pipelines.get()
    assert after["status"]["phase"] == "Streaming"
    assert after["spec"] == before["spec"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"phase": "Well"}, 'status.phase: Unsupported value: "Well"'),
        ({"conditions": [{"type": "Ready"}]}, "status.conditions[0].status: Required value"),
        (
            {"conditions": [make_condition("Ready", "True"), make_condition("Ready", "False")]},
            f'status.conditions[1]: Duplicate value: {SHOWN_OBJECT}{{"type":"Ready"}}',
        ),
    ],
)
def test_a_status_that_is_not_one_is_refused(
    pipelines: Pipelines, status: dict[str, Any], message: str
) -> None:
    pipelines.apply(make_minimal())
    with pytest.raises(AssertionError) as caught:
        pipelines.patch_status(status)
    assert message in str(caught.value)


def _wait_for_ready(pipelines: Pipelines, timeout: str) -> int:
    how = ("--for=condition=Ready", f"--timeout={timeout}", "icdc/shop")
    return pipelines.run("wait", *how).code


def test_kubectl_wait_returns_once_the_pipeline_is_ready(pipelines: Pipelines) -> None:
    pipelines.apply(make_minimal())
    assert _wait_for_ready(pipelines, "0s") != 0
    with ThreadPoolExecutor(max_workers=1) as pool:
        waiting = pool.submit(_wait_for_ready, pipelines, "60s")
        seen = {"observedGeneration": 1}
        pipelines.patch_status({**seen, "conditions": [make_condition("Ready", "False")]})
        assert not waiting.done()
        pipelines.patch_status({**seen, "conditions": [make_condition("Ready", "True")]})
        assert waiting.result() == 0


def test_a_pipeline_that_nobody_has_looked_at_is_not_taken_for_done(pipelines: Pipelines) -> None:
    made = pipelines.apply(make_minimal())
    assert made["status"] == {"observedGeneration": UNOBSERVED}
    assert kstatus.judge(made) == Verdict.IN_PROGRESS
    assert parse_status(made["status"]) == PipelineStatus()


def test_kubectl_wait_does_not_take_the_word_of_an_older_generation(pipelines: Pipelines) -> None:
    pipelines.apply(make_minimal())
    pipelines.patch_status({"conditions": [make_condition("Ready", "True", observedGeneration=1)]})
    assert _wait_for_ready(pipelines, "0s") == 0
    pipelines.apply(make_minimal(suspend=True))
    assert _wait_for_ready(pipelines, "0s") != 0
