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
    alias,
    anew,
    check_served,
    first_export,
    goes_on,
    setting,
    to_index,
    to_node,
)
from icdc_testing.tables.playing import Stages, assert_played
from icdc_testing.tables.scenarios import Act, Op, Scenario, ScenarioStep, put

pytestmark = pytest.mark.spark

THEIRS = {"id": 1, "name": "theirs"}


def mapping(**body: Any) -> Act:
    return to_index("PUT", "/_mapping", body)


def stalls(
    reason: str, message_part: str, *acts: Act, healed: Act, then: int = 1, **more: Any
) -> Any:
    """Nothing is written until it is undone, then it goes on by itself."""
    assert callable(healed)
    writes = [NEW] if then == 1 else [*ROWS, NEW]
    return [
        first_export(),
        # Undone right after the run: readers of some of them would see nothing before.
        ScenarioStep(
            do=[*acts, ADDED], reason=reason, message_part=message_part, check=healed, **more
        ),
        ScenarioStep(writes=writes, into=then, check=check_served(then)),
    ]


def differs(*acts: Act, change: str, writes: tuple[Op, ...], left: dict[str, Any]) -> Any:
    """Documents that no batch touches stay different until a comparison."""
    return goes_on(*acts, change=change, writes=writes, documents=left)


def block(name: str, *tried: Op) -> Any:
    """Return the case of an index that takes no writes: `tried` are those that it refuses."""
    return stalls(
        "TargetReadOnly",
        "refuses writes (cluster_block_exception): remove the block, or free disk space.",
        setting(f"blocks.{name}", True),
        healed=setting(f"blocks.{name}", None),
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


def versioned(version: int) -> Act:
    """Return the act of writing document 1 with an external version."""
    path = f"/_doc/1?version={version}&version_type=external"
    return to_index("PUT", path, THEIRS)


CASES: dict[str, Any] = {
    # The index itself.
    "deleted": anew(to_index("DELETE")),
    "made anew by a client": anew(to_index("DELETE"), to_index("PUT")),
    "alias taken by a client": stalls(
        "AliasTaken",
        "and was not made by a pipeline: choose another `index`, or remove it.",
        to_index("DELETE"),
        to_node("PUT", "/{alias}"),
        healed=to_node("DELETE", "/{alias}"),
        then=2,
        documents={},
    ),
    "closed": stalls(
        "TargetReadOnly",
        "/_open); then",
        to_index("POST", "/_close"),
        healed=to_index("POST", "/_open"),
    ),
    "closed and opened": goes_on(to_index("POST", "/_close"), to_index("POST", "/_open")),
    "read only": block("read_only", NEW),
    "disk full": block("read_only_allow_delete", NEW),
    "metadata blocked": block("metadata"),
    "replicas added": goes_on(setting("number_of_replicas", 1)),
    "merged by force": goes_on(to_index("POST", "/_forcemerge?max_num_segments=1")),
    # The alias.
    "alias removed": goes_on(alias("remove", "000001")),
    "alias filtered": [
        first_export(),
        ScenarioStep(
            do=[alias("add", "000001", **FILTER), ADDED],
            writes=[NEW],
            documents={"1": ROWS[0][2] or {}},
        ),
        ScenarioStep(do=[UPDATED], writes=[UPDATE], documents=X, check=check_served(1)),
    ],
    "alias on an index of somebody else": stalls(
        "AliasTaken",
        "which was not made by a pipeline",
        to_node("PUT", "/{alias}-logs"),
        alias("add", "logs"),
        healed=alias("remove", "logs"),
    ),
    "rollover": goes_on(to_node("POST", "/{alias}/_rollover", status=400)),
    "rollover of a write index": stalls(
        "AliasTaken",
        "-000002', which was not made by a pipeline",
        alias("add", "000001", is_write_index=True),
        to_node("POST", "/{alias}/_rollover"),
        healed=to_node("DELETE", "/{alias}-000002"),
    ),
    # The documents.
    "edited by query": differs(
        to_index("POST", "/_update_by_query?refresh", EDITED),
        change=UPDATED,
        writes=(UPDATE,),
        left=ALL_THEIRS | X,
    ),
    "removed by query": differs(
        to_index("POST", "/_delete_by_query?refresh", EVERYTHING),
        change=UPDATED,
        writes=(UPDATE,),
        left=X,
    ),
    "a version below ours": goes_on(
        to_index("DELETE", "/_doc/1"),
        versioned(compute_base_version(1) + 7),
        change=UPDATED,
        writes=(UPDATE,),
    ),
    "a version between ours": differs(
        versioned(compute_base_version(2) + 7),
        change=UPDATED,
        writes=(UPDATE,),
        left={"1": THEIRS} | UNTOUCHED,
    ),
    "the version of our next batch": differs(
        versioned(compute_base_version(2)),
        change=UPDATED,
        writes=(UPDATE,),
        left={"1": THEIRS} | UNTOUCHED,
    ),
    # The mapping.
    "mapping made dynamic": goes_on(mapping(dynamic=True)),
    "owner removed from the mapping": goes_on(mapping(_meta={})),
    "a field that a later column has": stalls(
        "MappingInvalid",
        "OpenSearch refused the fields `note`",
        mapping(properties={"note": {"type": "keyword"}}),
        "alter table {t} add column note int",
        healed=to_index("GET"),
    )[:2],
    "no room for a field": stalls(
        "MappingInvalid",
        "such as index.mapping.total_fields.limit",
        setting("mapping.total_fields.limit", 2),
        "alter table {t} add column note int",
        healed=setting("mapping.total_fields.limit", None),
    ),
}


def scenario(what: str) -> Scenario:
    return Scenario(name=what.replace(" ", "_"), steps=CASES[what], create=False)


@pytest.fixture(scope="module")
def stages(teller: Callable[..., Stages]) -> Stages:
    return teller([scenario(what) for what in CASES])


@pytest.mark.parametrize("what", CASES)
def test_an_act_on_an_index_ends_as_expected(stages: Stages, what: str) -> None:
    assert_played(stages[scenario(what).alias])
