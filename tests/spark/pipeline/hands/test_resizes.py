"""An index that somebody split, shrank or cloned, and the copy that readers are given in its place.

Each act has its own table, and all of them go through the same runs.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from icdc_testing.tables.hands import (
    change_alias,
    change_setting,
    do_all,
    export_anew,
    go_on,
    send_to_index,
    send_to_node,
)
from icdc_testing.tables.playing import Stages, assert_played
from icdc_testing.tables.scenarios import Act, Scenario, ScenarioStep, ScenarioTable
from icdc_testing.target.node_calls import call

pytestmark = pytest.mark.spark


def copy_index(verb: str, name: str, **settings: object) -> Act:
    """Return the act of making another index of the first one; both take writes afterwards."""
    return do_all(
        change_setting("blocks.write", True),
        send_to_index("POST", f"/{verb}/{{alias}}-{name}", {"settings": settings}),
        change_setting("blocks.write", None),
        send_to_node("PUT", f"/{{alias}}-{name}/_settings", {"index.blocks.write": None}),
    )


def move_alias(name: str) -> Act:
    return do_all(change_alias("remove", "000001"), change_alias("add", name))


def force_two_shards(stage: ScenarioTable) -> None:
    """Have the first index made with two shards, so that it can be shrunk."""
    mine = stage.scenario.alias
    template = {"settings": {"number_of_shards": 2}}
    body = {"index_patterns": [f"{mine}-000001"], "template": template}
    assert call(stage.url, "PUT", f"/_index_template/{mine}", body).status == 200


def start_with_two_shards(steps: list[ScenarioStep]) -> list[ScenarioStep]:
    first, second, *rest = steps
    no_template = send_to_node("DELETE", "/_index_template/{alias}")
    return [
        replace(first, do=[force_two_shards, *first.do]),
        replace(second, do=[no_template, *second.do]),
        *rest,
    ]


SPLIT = copy_index("_split", "wide", **{"index.number_of_shards": 2})
SHRUNK = copy_index("_shrink", "small")
CLONED = copy_index("_clone", "copy")
SOURCE_DELETED = send_to_index("DELETE")

CASES: dict[str, Any] = {
    "split": go_on(SPLIT),
    "split and served": go_on(SPLIT, move_alias("wide")),
    "split and the source deleted": export_anew(SPLIT, SOURCE_DELETED, change_alias("add", "wide")),
    "shrunk": start_with_two_shards(go_on(SHRUNK)),
    "shrunk and served": start_with_two_shards(go_on(SHRUNK, move_alias("small"))),
    "shrunk and the source deleted": start_with_two_shards(
        export_anew(SHRUNK, SOURCE_DELETED, change_alias("add", "small"))
    ),
    "cloned and served": go_on(CLONED, move_alias("copy")),
    "cloned and the source deleted": export_anew(
        CLONED, SOURCE_DELETED, change_alias("add", "copy")
    ),
    # Named like the index of our next export.
    "cloned under our next name": export_anew(
        copy_index("_clone", "000002"), SOURCE_DELETED, into=3
    ),
    "cloned under our next name and served": go_on(
        copy_index("_clone", "000002"), move_alias("000002")
    ),
}


def make_scenario(what: str) -> Scenario:
    return Scenario(name=what.replace(" ", "_"), steps=CASES[what], create=False)


@pytest.fixture(scope="module")
def stages(play: Callable[..., Stages]) -> Stages:
    return play([make_scenario(what) for what in CASES])


@pytest.mark.parametrize("what", CASES)
def test_an_index_that_was_resized_is_followed_or_exported_anew(stages: Stages, what: str) -> None:
    assert_played(stages[make_scenario(what).alias])
