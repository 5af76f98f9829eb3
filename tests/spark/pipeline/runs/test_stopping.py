"""Tables that stall where the pipeline says Stop, or where only a person can help.

One pipeline with all of them: each says why and what to do, nothing is written for it, and the
healthy table among them goes on.
"""

from collections.abc import Callable

import pytest

from icdc_testing.tables.acts import (
    COMPACT,
    EXPIRE,
    FILL,
    FILLED,
    FOUR,
    INSERT_FOUR,
    delete_index,
    note_snapshot,
    recreate_table,
    remove_tags,
)
from icdc_testing.tables.playing import Stages, assert_played
from icdc_testing.tables.scenarios import Scenario, ScenarioStep, ScenarioTable, remove

pytestmark = pytest.mark.spark

FIRST = ScenarioStep(do=[FILL], writes=FILLED)

UNKNOWN = (
    ", so the changes since the last applied snapshot are unknown. Raise spec.resync.nonce to "
    "export the table again, or set changelog.onGap to Reexport."
)
DIFFER = (
    ", so documents already written would differ. Raise spec.resync.nonce to export the table "
    "again, or set changelog.onIncompatibleSchema to Reexport."
)


def corrupt_state(stage: ScenarioTable) -> None:
    """Somebody edits the state document by hand."""
    path = f"icdc-state/_doc/{stage.scenario.alias}"
    source = stage.call("GET", path)["_source"]
    source["applied"]["snapshotId"] = "1"
    stage.call("PUT", f"{path}?refresh=true", source)


def truncate(stage: ScenarioTable) -> None:
    stage.call("PUT", f"icdc-state/_doc/{stage.scenario.alias}?refresh=true", {"alias": "x"})


def leave_as_it_is(stage: ScenarioTable) -> None:
    """Require that the corrupted document is still there for somebody to read."""
    source = stage.call("GET", f"icdc-state/_doc/{stage.scenario.alias}")["_source"]
    assert source.get("applied", {"snapshotId": "1"})["snapshotId"] == "1"


def replace_meta(stage: ScenarioTable) -> None:
    """Somebody replaces the mapping's _meta."""
    (index,) = stage.list_indices()
    stage.call("PUT", f"{index}/_mapping", {"_meta": {"mine": True}})


def corrupt(alias: str, problem: str) -> str:
    return (
        f"The state document '{alias}' in index icdc-state cannot be trusted: {problem}. "
        f"Restore it, or delete the document '{alias}' in icdc-state to force a re-export."
    )


SCENARIOS = [
    Scenario(
        name="healthy",
        steps=[FIRST, ScenarioStep(do=[INSERT_FOUR], writes=[FOUR]), ScenarioStep()],
    ),
    Scenario(
        name="expired",
        steps=[
            FIRST,
            ScenarioStep(
                do=[
                    note_snapshot,
                    INSERT_FOUR,
                    remove_tags,
                    EXPIRE,
                ],
                reason="Gap",
                message="Table {n}: snapshot {noted} has expired or was removed" + UNKNOWN,
            ),
            ScenarioStep(
                do=["insert into {t} values (5,'e',5)"],
                reason="Gap",
                message="Table {n}: snapshot {noted} has expired or was removed" + UNKNOWN,
            ),
        ],
    ),
    Scenario(
        name="recreated",
        steps=[
            FIRST,
            ScenarioStep(
                do=[recreate_table, INSERT_FOUR],
                reason="Gap",
                message="Table {n}: the table was dropped and created again (its uuid changed)"
                + UNKNOWN,
            ),
        ],
    ),
    Scenario(
        name="deleted_index",
        steps=[
            FIRST,
            ScenarioStep(
                do=[delete_index],
                documents={},
                reason="Gap",
                message="Table {n}: the index deleted-index-cow2-000001 no longer exists" + UNKNOWN,
            ),
        ],
    ),
    Scenario(
        name="dropped",
        steps=[
            FIRST,
            ScenarioStep(
                do=["alter table {t} drop column age", "insert into {t} values (4,'d')"],
                reason="IncompatibleSchema",
                message="Table {n}: column `age` no longer exists" + DIFFER,
            ),
        ],
    ),
    Scenario(
        name="renamed",
        steps=[
            FIRST,
            ScenarioStep(
                do=["alter table {t} rename column age to years", INSERT_FOUR],
                reason="IncompatibleSchema",
                message="Table {n}: column `age` is now called `years`" + DIFFER,
            ),
            # Named back, the documents are again what was written.
            ScenarioStep(
                do=["alter table {t} rename column years to age", "delete from {t} where id = 1"],
                writes=[FOUR, remove("1")],
            ),
        ],
    ),
    Scenario(
        name="other_filter",
        steps=[
            FIRST,
            ScenarioStep(
                entry={"rowFilter": "age < 3"},
                reason="IncompatibleSchema",
                message="Table {n}: rowFilter changed" + DIFFER,
            ),
        ],
    ),
    Scenario(
        name="other_key",
        steps=[
            FIRST,
            ScenarioStep(
                entry={"identifierColumns": ["name"]},
                reason="IncompatibleSchema",
                message="Table {n}: the identifier columns changed" + DIFFER,
            ),
        ],
    ),
    Scenario(
        name="edited_state",
        steps=[
            FIRST,
            ScenarioStep(
                do=[corrupt_state, INSERT_FOUR],
                reason="StateCorrupt",
                message=corrupt("edited-state-cow2", "its checksum does not match its content"),
                check=leave_as_it_is,
            ),
        ],
    ),
    Scenario(
        name="cut_state",
        steps=[
            FIRST,
            ScenarioStep(
                do=[truncate],
                reason="StateCorrupt",
                message=corrupt("cut-state-cow2", "its checksum does not match its content"),
                check=leave_as_it_is,
            ),
        ],
    ),
    Scenario(
        name="edited_meta",
        steps=[
            FIRST,
            ScenarioStep(
                do=[
                    replace_meta,
                    "alter table {t} add column note string",
                    "insert into {t} values (4,'d',4,'x')",
                ],
                reason="StateCorrupt",
                message="Index edited-meta-cow2-000001 no longer says in its mapping's _meta what "
                "its documents were made of. Raise spec.resync.nonce to export the table again.",
            ),
        ],
    ),
    Scenario(
        name="dropped_table",
        steps=[
            FIRST,
            ScenarioStep(do=[COMPACT]),
            ScenarioStep(
                do=["drop table {t}"],
                reason="TableNotFound",
                message="{n}: the catalog has no such table (org.apache.iceberg.exceptions."
                "NoSuchTableException: Table does not exist: {n})",
            ),
        ],
    ),
]


@pytest.fixture(scope="module")
def stages(play: Callable[..., Stages]) -> Stages:
    return play(SCENARIOS, changelog={"onGap": "Stop", "onIncompatibleSchema": "Stop"})


@pytest.mark.parametrize("alias", [scenario.alias for scenario in SCENARIOS])
def test_a_table_that_cannot_go_on_says_why_and_the_others_go_on(
    stages: Stages, alias: str
) -> None:
    assert_played(stages[alias])
