"""Whatever somebody does to an index, the table goes on, is exported anew, or stalls and says why.

Each act has its own table, and all of them go through the same runs: what was done to one index
is no fault of another.
"""

from collections.abc import Callable
from typing import Any

import pytest

from icdc_spark.protocol.state_document import compute_base_version
from icdc_testing.tables.hands import (
    ADDED,
    NEW,
    ROWS,
    change_alias,
    change_setting,
    check_served,
    export_anew,
    export_first,
    go_on,
    send_to_index,
    send_to_node,
)
from icdc_testing.tables.playing import Stages, assert_played
from icdc_testing.tables.scenarios import Act, Op, Scenario, ScenarioStep, put

pytestmark = pytest.mark.spark

THEIRS = {"id": 1, "name": "theirs"}


def put_mapping(**body: Any) -> Act:
    return send_to_index("PUT", "/_mapping", body)


def stall(
    reason: str, message_part: str, *acts: Act, healed: Act, then: int = 1, **more: Any
) -> Any:
    """Nothing is written until it is undone, then it goes on by itself."""
    assert callable(healed)
    writes = [NEW] if then == 1 else [*ROWS, NEW]
    return [
        export_first(),
        # Undone right after the run: readers of some of them would see nothing before.
        ScenarioStep(
            do=[*acts, ADDED], reason=reason, message_part=message_part, check=healed, **more
        ),
        ScenarioStep(writes=writes, into=then, check=check_served(then)),
    ]


def differ(*acts: Act, change: str, writes: tuple[Op, ...], left: dict[str, Any]) -> Any:
    """Documents that no batch touches stay different until a comparison."""
    return go_on(*acts, change=change, writes=writes, documents=left)


def block_writes(name: str, *tried: Op) -> Any:
    """Return the case of an index that takes no writes: `tried` are those that it refuses."""
    return stall(
        "TargetReadOnly",
        "-000001' (cluster_block_exception: ",
        change_setting(f"blocks.{name}", True),
        healed=change_setting(f"blocks.{name}", None),
        writes=tried,
    )


FILTER = {"filter": {"term": {"id": 1}}}
EDITED = {"script": {"source": "ctx._source.name = 'theirs'"}}
EVERYTHING: object = {"query": {"match_all": {}}}
ALL_THEIRS = {str(key): {"id": key, "name": "theirs"} for key in (1, 2, 3)}
UPDATED = "update {t} set name = 'x' where id = 1"
UPDATE = put("1", id=1, name="x")
X = {"1": {"id": 1, "name": "x"}}
UNTOUCHED = {"2": {"id": 2, "name": "b"}, "3": {"id": 3, "name": "c"}}


def write_with_version(version: int) -> Act:
    """Return the act of writing document 1 with an external version."""
    path = f"/_doc/1?version={version}&version_type=external"
    return send_to_index("PUT", path, THEIRS)


CASES: dict[str, Any] = {
    # The index itself.
    "deleted": export_anew(send_to_index("DELETE")),
    "made anew by a client": export_anew(send_to_index("DELETE"), send_to_index("PUT")),
    "alias taken by a client": stall(
        "AliasTaken",
        "and was not made by a pipeline: choose another `index`, or delete that index.",
        send_to_index("DELETE"),
        send_to_node("PUT", "/{alias}"),
        healed=send_to_node("DELETE", "/{alias}"),
        then=2,
        documents={},
    ),
    "closed": stall(
        "TargetReadOnly",
        "/_open); then",
        send_to_index("POST", "/_close"),
        healed=send_to_index("POST", "/_open"),
    ),
    "closed and opened": go_on(send_to_index("POST", "/_close"), send_to_index("POST", "/_open")),
    "read only": block_writes("read_only", NEW),
    "disk full": block_writes("read_only_allow_delete", NEW),
    "metadata blocked": block_writes("metadata"),
    "replicas added": go_on(change_setting("number_of_replicas", 1)),
    "merged by force": go_on(send_to_index("POST", "/_forcemerge?max_num_segments=1")),
    # The alias.
    "alias removed": go_on(change_alias("remove", "000001")),
    "alias filtered": [
        export_first(),
        ScenarioStep(
            do=[change_alias("add", "000001", **FILTER), ADDED],
            writes=[NEW],
            documents={"1": ROWS[0][2] or {}},
        ),
        ScenarioStep(do=[UPDATED], writes=[UPDATE], documents=X, check=check_served(1)),
    ],
    "alias on an index of somebody else": stall(
        "AliasTaken",
        "which was not made by a pipeline",
        send_to_node("PUT", "/{alias}-logs"),
        change_alias("add", "logs"),
        healed=change_alias("remove", "logs"),
    ),
    "rollover": go_on(send_to_node("POST", "/{alias}/_rollover", status=400)),
    "rollover of a write index": stall(
        "AliasTaken",
        "-000002', which was not made by a pipeline",
        change_alias("add", "000001", is_write_index=True),
        send_to_node("POST", "/{alias}/_rollover"),
        healed=send_to_node("DELETE", "/{alias}-000002"),
    ),
    # The documents.
    "edited by query": differ(
        send_to_index("POST", "/_update_by_query?refresh", EDITED),
        change=UPDATED,
        writes=(UPDATE,),
        left=ALL_THEIRS | X,
    ),
    "removed by query": differ(
        send_to_index("POST", "/_delete_by_query?refresh", EVERYTHING),
        change=UPDATED,
        writes=(UPDATE,),
        left=X,
    ),
    "a version below ours": go_on(
        send_to_index("DELETE", "/_doc/1"),
        write_with_version(compute_base_version(1) + 7),
        change=UPDATED,
        writes=(UPDATE,),
    ),
    "a version between ours": differ(
        write_with_version(compute_base_version(2) + 7),
        change=UPDATED,
        writes=(UPDATE,),
        left={"1": THEIRS} | UNTOUCHED,
    ),
    "the version of our next batch": differ(
        write_with_version(compute_base_version(2)),
        change=UPDATED,
        writes=(UPDATE,),
        left={"1": THEIRS} | UNTOUCHED,
    ),
    # The mapping.
    "mapping made dynamic": go_on(put_mapping(dynamic=True)),
    "owner removed from the mapping": go_on(put_mapping(_meta={})),
    "a field that a later column has": stall(
        "MappingInvalid",
        "OpenSearch refused the fields `note`",
        put_mapping(properties={"note": {"type": "keyword"}}),
        "alter table {t} add column note int",
        healed=send_to_index("GET"),
    )[:2],
    "no room for a field": stall(
        "MappingInvalid",
        "such as index.mapping.total_fields.limit",
        change_setting("mapping.total_fields.limit", 2),
        "alter table {t} add column note int",
        healed=change_setting("mapping.total_fields.limit", None),
    ),
}


def make_scenario(what: str) -> Scenario:
    return Scenario(name=what.replace(" ", "_"), steps=CASES[what], create=False)


@pytest.fixture(scope="module")
def stages(play: Callable[..., Stages]) -> Stages:
    return play([make_scenario(what) for what in CASES])


@pytest.mark.parametrize("what", CASES)
def test_an_act_on_an_index_ends_as_expected(stages: Stages, what: str) -> None:
    assert_played(stages[make_scenario(what).alias])
