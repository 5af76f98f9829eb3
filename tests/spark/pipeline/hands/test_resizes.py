"""An index that somebody split, shrank or cloned, and the copy that readers are given in its place.

Each act has its own table, and all of them go through the same runs.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from icdc_testing.tables.hands import alias, all_of, anew, goes_on, setting, to_index, to_node
from icdc_testing.tables.playing import Stages, assert_played
from icdc_testing.tables.scenarios import Act, Scenario, ScenarioStep, ScenarioTable
from icdc_testing.target.node_calls import call

pytestmark = pytest.mark.spark


def copied(verb: str, name: str, **settings: object) -> Act:
    """Return the act of making another index of the first one; both take writes afterwards."""
    return all_of(
        setting("blocks.write", True),
        to_index("POST", f"/{verb}/{{alias}}-{name}", {"settings": settings}),
        setting("blocks.write", None),
        to_node("PUT", f"/{{alias}}-{name}/_settings", {"index.blocks.write": None}),
    )


def moved(name: str) -> Act:
    return all_of(alias("remove", "000001"), alias("add", name))


def two_shards(stage: ScenarioTable) -> None:
    """Have the first index made with two shards, so that it can be shrunk."""
    mine = stage.scenario.alias
    template = {"settings": {"number_of_shards": 2}}
    body = {"index_patterns": [f"{mine}-000001"], "template": template}
    assert call(stage.url, "PUT", f"/_index_template/{mine}", body).status == 200


def of_two_shards(steps: list[ScenarioStep]) -> list[ScenarioStep]:
    first, second, *rest = steps
    no_template = to_node("DELETE", "/_index_template/{alias}")
    return [
        replace(first, do=[two_shards, *first.do]),
        replace(second, do=[no_template, *second.do]),
        *rest,
    ]


SPLIT = copied("_split", "wide", **{"index.number_of_shards": 2})
SHRUNK = copied("_shrink", "small")
CLONED = copied("_clone", "copy")
SOURCE_DELETED = to_index("DELETE")

CASES: dict[str, Any] = {
    "split": goes_on(SPLIT),
    "split and served": goes_on(SPLIT, moved("wide")),
    "split and the source deleted": anew(SPLIT, SOURCE_DELETED, alias("add", "wide")),
    "shrunk": of_two_shards(goes_on(SHRUNK)),
    "shrunk and served": of_two_shards(goes_on(SHRUNK, moved("small"))),
    "shrunk and the source deleted": of_two_shards(
        anew(SHRUNK, SOURCE_DELETED, alias("add", "small"))
    ),
    "cloned and served": goes_on(CLONED, moved("copy")),
    "cloned and the source deleted": anew(CLONED, SOURCE_DELETED, alias("add", "copy")),
    # Named like the index of our next export.
    "cloned under our next name": anew(copied("_clone", "000002"), SOURCE_DELETED, into=3),
    "cloned under our next name and served": goes_on(copied("_clone", "000002"), moved("000002")),
}


def scenario(what: str) -> Scenario:
    return Scenario(name=what.replace(" ", "_"), steps=CASES[what], create=False)


@pytest.fixture(scope="module")
def stages(teller: Callable[..., Stages]) -> Stages:
    return teller([scenario(what) for what in CASES])


@pytest.mark.parametrize("what", CASES)
def test_an_index_that_was_resized_is_followed_or_exported_anew(stages: Stages, what: str) -> None:
    assert_played(stages[scenario(what).alias])
