"""Tables that a pipeline cannot follow: each says why in words, and nothing is made for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icdc_testing.lake.schemas import build_schema_json
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.acts import FILL, FILLED
from icdc_testing.tables.playing import Stages, assert_played
from icdc_testing.tables.scenarios import MOR3, Scenario, ScenarioStep, ScenarioTable

pytestmark = pytest.mark.spark

NO_NAME = "rename it in the table, or leave it out by naming the other columns in `columns`"
NO_TYPE = "which is not supported; leave it out by naming the other columns in `columns`"
SOMEBODY_ELSES = {"properties": {"x": {"type": "keyword"}}}
COLUMNS = "the columns are `id`, `name`, `age`"


def check_nothing_made(stage: ScenarioTable) -> None:
    """There is neither an index nor a state document for the table."""
    alias = stage.scenario.alias
    listed = stage.call("GET", "_mapping?expand_wildcards=all")
    assert not [name for name in listed if name.startswith(f"{alias}-0")]
    query = {"query": {"ids": {"values": [alias]}}}
    stage.call("POST", "icdc-state/_refresh")
    assert stage.call("POST", "icdc-state/_count", query)["count"] == 0


def make_refusal(name: str, reason: str, message: str, *do: Any, **details: Any) -> Scenario:
    """Return a table that stalls at its first run."""
    step = ScenarioStep(
        do=do, reason=reason, message=message, documents={}, check=check_nothing_made
    )
    return Scenario(name=name, steps=[step], **details)


def make_scenario(name: str, kind: str, reason: str, message: str, **details: Any) -> Scenario:
    """Return a table with one column more, made by Iceberg itself."""
    columns = build_schema_json({"id": "int", name: kind})
    label = "made_" + "".join(c if c.isalnum() else "x" for c in f"{name}_{kind}".lower())
    return make_refusal(label, reason, message, columns=columns, **details)


def make_bad_key(name: str, kind: str, shown: str) -> Scenario:
    return make_refusal(
        f"key_{name}",
        "UnsupportedType",
        f"{{n}}: column `k` of type {shown} cannot be part of an id; name other identifierColumns",
        columns=f"id int, k {kind}",
        key=["id", "k"],
    )


def create_plain_index(stage: ScenarioTable) -> None:
    stage.call("PUT", stage.scenario.alias, {"mappings": SOMEBODY_ELSES})


def create_foreign_alias(stage: ScenarioTable) -> None:
    stage.call(
        "PUT", "somebody-elses", {"mappings": SOMEBODY_ELSES, "aliases": {stage.scenario.alias: {}}}
    )


def feed_by_another_pipeline(folder: Path) -> Callable[[ScenarioTable], None]:
    def act(stage: ScenarioTable) -> None:
        entry = {
            "name": stage.name,
            "identifierColumns": ["id"],
            "index": stage.scenario.alias,
        }
        Harness(stage.spark, stage.url, folder, [entry], name="other").sync()

    return act


MISSING_NAMES = [
    Scenario(name="fine", steps=[ScenarioStep(do=[FILL], writes=FILLED)]),
    make_refusal(
        "missing",
        "TableNotFound",
        "{n}: the catalog has no such table (org.apache.iceberg.exceptions."
        "NoSuchTableException: Table does not exist: {n})",
        create=False,
    ),
    make_refusal(
        "no_catalog",
        "CatalogInvalid",
        "{n}: Iceberg cannot create a catalog from catalog.properties (java.lang."
        "UnsupportedOperationException: Unknown catalog type: gluee)",
        create=False,
        entry={"catalog": {"name": "nowhere", "properties": {"type": "gluee"}}},
    ),
    make_refusal(
        "no_column",
        "ColumnNotFound",
        f"{{n}}: identifierColumns names `nope`, which is not a column; {COLUMNS}",
        key=["nope"],
    ),
    make_refusal(
        "no_field",
        "ColumnNotFound",
        f"{{n}}: identifierColumns names `name.first`, which is not a column; {COLUMNS}",
        key=["name.first"],
    ),
    make_refusal(
        "no_projected",
        "ColumnNotFound",
        f"{{n}}: columns names `total`, which is not a top-level column; {COLUMNS}",
        entry={"columns": ["id", "total"]},
    ),
    make_refusal(
        "no_mapped",
        "ColumnNotFound",
        f"{{n}}: mapping names `total`, which is not a field of the documents; {COLUMNS}",
        entry={"mapping": {"total": {"type": "keyword"}}},
    ),
    make_refusal(
        "no_key",
        "NoIdentifier",
        "{n} has no identifier fields of its own: name its key in identifierColumns, "
        "or declare the table appendOnly",
        entry={"identifierColumns": None},
    ),
    make_refusal(
        "no_branch",
        "BranchNotFound",
        "{n} has no branch `dev`; its branches are main",
        FILL,
        entry={"branch": "dev"},
    ),
]

UNUSABLE_COLUMNS = [
    make_bad_key("float", "float", "float"),
    make_bad_key("double", "double", "double"),
    make_bad_key("struct", "struct<a:int>", "struct"),
    make_bad_key("list", "array<int>", "list"),
    make_bad_key("map", "map<string,int>", "map"),
    make_scenario(
        "g",
        "geometry",
        "UnsupportedType",
        f"{{n}}: column `g` has the type geometry, {NO_TYPE}",
        format=MOR3,
    ),
    make_scenario(
        "g",
        "geography",
        "UnsupportedType",
        f"{{n}}: column `g` has the type geography, {NO_TYPE}",
        format=MOR3,
    ),
    make_scenario(
        "a.b",
        "int",
        "UnsupportedType",
        f"{{n}}: column `a.b` cannot become a field: its name holds a dot; {NO_NAME}",
    ),
    make_scenario(
        "_id",
        "int",
        "UnsupportedType",
        f"{{n}}: column `_id` cannot become a field: OpenSearch reserves the name; {NO_NAME}",
    ),
    make_scenario(
        " ",
        "int",
        "UnsupportedType",
        f"{{n}}: column ` ` cannot become a field: its name is empty; {NO_NAME}",
    ),
    Scenario(
        name="projected_away",
        format=MOR3,
        columns=build_schema_json({"id": "int", "g": "geometry", "a.b": "int"}),
        entry={"columns": ["id"]},
        steps=[ScenarioStep(documents={})],
    ),
    make_refusal(
        "bad_filter",
        "FilterInvalid",
        "{n}: rowFilter `total > 1` cannot be evaluated: [UNRESOLVED_COLUMN.WITH_SUGGESTION] "
        "A column, variable, or function parameter with name `total` cannot be resolved. Did "
        "you mean one of the following? [`age`, `id`, `name`]. SQLSTATE: 42703; line 1 "
        "pos 0;",
        FILL,
        entry={"rowFilter": "total > 1"},
    ),
    make_refusal(
        "filter_by_time",
        "FilterInvalid",
        "{n}: rowFilter `age > day(current_date())` depends on more than the row (CurrentDate). "
        "A row may enter or leave the index only when the row itself changes. Filter by a column "
        "that the writer of the table sets, and let the writer update it, for example when a row "
        "grows too old.",
        FILL,
        entry={"rowFilter": "age > day(current_date())"},
    ),
]


def list_taken_names(folder: Path) -> list[Scenario]:
    """Name in OpenSearch that belong to somebody else."""
    return [
        make_refusal(
            "plain_index",
            "AliasTaken",
            "An index named 'plain-index-cow2' exists and was not made by a pipeline: choose "
            "another `index`, or delete that index.",
            FILL,
            create_plain_index,
        ),
        make_refusal(
            "foreign_alias",
            "AliasTaken",
            "Alias 'foreign-alias-cow2' points to index 'somebody-elses', which was not made by a "
            "pipeline: choose another `index`, or remove the alias.",
            FILL,
            create_foreign_alias,
        ),
        Scenario(
            name="other_pipeline",
            steps=[
                ScenarioStep(
                    do=[FILL, feed_by_another_pipeline(folder)],
                    documents={key: doc or {} for _, key, doc in FILLED},
                    reason="AliasTaken",
                    message="Alias 'other-pipeline-cow2' is fed by pipeline 'default/other'; "
                    "choose another `index`, or delete that pipeline with deletionPolicy "
                    "DeleteIndices, which deletes its index.",
                )
            ],
        ),
    ]


def list_scenarios(folder: Path) -> list[Scenario]:
    return [*MISSING_NAMES, *UNUSABLE_COLUMNS, *list_taken_names(folder)]


ALIASES = [scenario.alias for scenario in list_scenarios(Path())]


@pytest.fixture(scope="module")
def stages(play: Callable[..., Stages], tmp_path_factory: pytest.TempPathFactory) -> Stages:
    return play(list_scenarios(tmp_path_factory.mktemp("other")))


@pytest.mark.parametrize("alias", ALIASES)
def test_what_cannot_be_followed_says_why_and_leaves_nothing_behind(
    stages: Stages, alias: str
) -> None:
    assert_played(stages[alias])
