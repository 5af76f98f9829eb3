"""`icdc pause`, `resume`, `restart`, `resync`: one field changes, a nonce is raised once."""

import pytest

from icdc_cli import main
from icdc_cli.cluster import change
from icdc_testing.kube.api_stub import ApiStub, Object, touch

pytestmark = pytest.mark.unit


def count_patches(api: ApiStub) -> int:
    return sum(request.startswith("PATCH") for request in api.asked)


@pytest.mark.parametrize(
    ("command", "before", "after", "said"),
    [
        (
            "pause",
            False,
            True,
            "shop will pause once a batch under way is finished, or after two minutes\n",
        ),
        ("pause", True, True, "shop is paused already\n"),
        ("resume", True, False, "shop goes on\n"),
        ("resume", False, False, "shop is not paused\n"),
    ],
)
def test_pause_and_resume_set_suspend_and_nothing_else(
    command: str,
    before: bool,
    after: bool,
    said: str,
    shop: Object,
    api: ApiStub,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop["spec"]["suspend"] = before
    rest = {key: value for key, value in shop["spec"].items() if key != "suspend"}
    assert main.main([command, "shop"]) == 0
    assert capsys.readouterr().out == said
    assert shop["spec"] == {**rest, "suspend": after}
    assert count_patches(api) == (before is not after)


def test_a_pipeline_that_never_said_suspend_can_be_paused(shop: Object) -> None:
    del shop["spec"]["suspend"]
    assert main.main(["pause", "shop"]) == 0
    assert shop["spec"]["suspend"] is True


@pytest.mark.parametrize(
    ("arguments", "tables", "said"),
    [
        ([], [], "shop: resync 5 of all tables is requested\n"),
        (
            ["--table", "shop.orders", "--mode", "export"],
            ["shop.orders"],
            "shop: resync 5 of shop.orders is requested\n",
        ),
        (
            ["--table", "shop.orders", "--table", "shop.customers", "--table", "shop.orders"],
            ["shop.orders", "shop.customers"],
            "shop: resync 5 of shop.orders, shop.customers is requested\n",
        ),
    ],
)
def test_resync_raises_the_nonce_and_names_the_tables(
    arguments: list[str],
    tables: list[str],
    said: str,
    shop: Object,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop["spec"]["resync"] = {"nonce": 4, "tables": ["shop.customers"], "mode": "Verify"}
    assert main.main(["resync", "shop", *arguments]) == 0
    assert shop["spec"]["resync"] == {"nonce": 5, "tables": tables, "mode": "Export"}
    assert capsys.readouterr().out == said


def test_rollback_is_a_resync_of_that_mode(
    shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["rollback", "shop", "--table", "shop.orders"]) == 0
    asked = {"nonce": 1, "tables": ["shop.orders"], "mode": "Rollback"}
    assert shop["spec"]["resync"] == asked
    assert capsys.readouterr().out == "shop: resync 1 of shop.orders is requested\n"


def test_resync_goes_above_the_nonce_that_was_acted_on(shop: Object) -> None:
    shop["spec"].pop("resync", None)
    shop["status"] = {"observedTriggers": {"restartNonce": 0, "resyncNonce": 7}}
    assert main.main(["resync", "shop"]) == 0
    assert shop["spec"]["resync"]["nonce"] == 8


@pytest.mark.parametrize(
    ("spec", "acted_on", "nonce"), [({}, 0, 1), ({"restartNonce": 2}, 2, 3), ({}, 7, 8)]
)
def test_restart_raises_its_nonce_and_changes_nothing_else(
    spec: Object, acted_on: int, nonce: int, shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    shop["spec"].pop("restartNonce", None)
    shop["spec"] |= spec
    shop["status"] = {"observedTriggers": {"restartNonce": acted_on, "resyncNonce": 40}}
    rest = {key: value for key, value in shop["spec"].items() if key != "restartNonce"}
    assert main.main(["restart", "shop"]) == 0
    assert shop["spec"] == {**rest, "restartNonce": nonce}
    assert capsys.readouterr().out == "shop: a new run is requested\n"


@pytest.mark.parametrize("command", ["resync", "restart"])
def test_of_a_paused_pipeline_it_is_said_when_it_begins(
    command: str, shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    shop["spec"]["suspend"] = True
    assert main.main([command, "shop"]) == 0
    assert "it begins when the pipeline is resumed" in capsys.readouterr().out


def test_resync_of_a_table_that_is_not_there_changes_nothing(
    shop: Object, api: ApiStub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["resync", "shop", "--table", "shop.order"]) == 2
    assert capsys.readouterr().err == (
        "icdc: --table shop.order: the pipeline has no such table; "
        "it has shop.orders, shop.customers; did you mean shop.orders?\n"
    )
    assert count_patches(api) == 0


@pytest.mark.parametrize("mode", ["Export", "Verify", "Repair", "Rollback"])
def test_resync_takes_each_mode_in_any_case(mode: str, shop: Object) -> None:
    assert main.main(["resync", "shop", "--mode", mode.upper()]) == 0
    assert shop["spec"]["resync"]["mode"] == mode


def test_resync_refuses_what_no_run_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main.main(["resync", "shop", "--mode", "all"])
    assert left.value.code == 2
    assert "{Export,Verify,Repair,Rollback}" in capsys.readouterr().err


def test_two_that_ask_at_once_ask_twice(shop: Object, api: ApiStub) -> None:
    def ask_meanwhile(pipeline: Object) -> None:
        if count_patches(api) < 3:
            pipeline["spec"].setdefault("resync", {"nonce": 0})["nonce"] += 1
            touch(pipeline)

    api.before_patch = ask_meanwhile
    assert main.main(["resync", "shop"]) == 0
    assert shop["spec"]["resync"]["nonce"] == 3
    assert count_patches(api) == 3


def test_a_pipeline_that_is_always_written_by_somebody_else_is_given_up(
    shop: Object, api: ApiStub, capsys: pytest.CaptureFixture[str]
) -> None:
    api.before_patch = touch
    assert main.main(["resync", "shop"]) == 3
    assert count_patches(api) == change.MAX_TRIES
    assert "has been modified" in capsys.readouterr().err


def test_of_many_tables_a_few_are_named_and_the_one_that_was_meant(
    shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    shop["spec"]["tables"] = [{"name": f"shop.t{number}"} for number in range(500)]
    assert main.main(["resync", "shop", "--table", "shop.t477x"]) == 2
    named = ", ".join(f"shop.t{number}" for number in range(10))
    assert capsys.readouterr().err == (
        f"icdc: --table shop.t477x: the pipeline has no such table; it has {named} and 490 more; "
        "did you mean shop.t477?\n"
    )
