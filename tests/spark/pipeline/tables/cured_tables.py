"""Tables that stall, each for one reason, and what its cure makes of each. Runs nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from icdc_api.status.pipeline_status import TableReason
from icdc_testing.lake.damage import ADDED, Damage, How, cut, lose
from icdc_testing.lake.schemas import build_schema_json
from icdc_testing.tables.acts import EXPIRE, FILL, INSERT_FOUR, remove_tags
from icdc_testing.tables.cures import send_cure
from icdc_testing.tables.fields import derive, take
from icdc_testing.tables.hands import change_setting, send_to_index, send_to_node
from icdc_testing.tables.long_values import LONG, UNLIMITED
from icdc_testing.tables.scenarios import Act, Scenario, ScenarioTable

Entry = Mapping[str, Any]
_PLAIN = Scenario(name="", steps=())
_GOOD_ROWS = ", ".join(f"({number}, 'x', {number})" for number in range(10, 20))
RESYNC = "icdc resync NAME -n NAMESPACE --table TABLE"


def break_state(stage: ScenarioTable) -> None:
    """Edit the state document by hand."""
    stage.call("PUT", f"icdc-state/_doc/{stage.scenario.alias}?refresh=true", {"alias": "x"})


@dataclass(frozen=True, kw_only=True)
class CuredTable:
    """One table, from its export to its cure."""

    name: str
    reason: TableReason
    cure: str
    """A part of the command that cures it, by which the command is found."""
    broken: Sequence[Act] = ()
    """What happens before the second run."""
    wrong: Entry = field(default_factory=dict)
    """Fields of its entry in the spec in that run; None leaves one out."""
    mended: Entry = field(default_factory=dict)
    """What the cure makes of them."""
    acts: Sequence[Act] = ()
    """What is done for the cure beside the spec."""
    step: int = 1
    """The cure is that of the table (1), or of the whole pipeline (its place in MENDED)."""
    new: bool = False
    """True if the table is not in the first run."""
    at_first: Entry = field(default_factory=dict)
    """Fields of its entry in every run, unless others say otherwise."""
    columns: str = _PLAIN.columns
    fill: str = FILL
    where: str | None = None
    """The rows that are documents in the end."""
    read: Sequence[str] | None = None
    """The columns that are in documents in the end; None for all."""


def spoil(name: str, reason: TableReason, how: How) -> CuredTable:
    """Return a table of which a file is damaged that the current snapshot then does without."""
    taken_out = "delete from {t} where id = 4"
    return CuredTable(
        name=name,
        reason=reason,
        cure=RESYNC,
        broken=[INSERT_FOUR, Damage(ADDED, how).do],
        acts=[taken_out],
    )


EXPIRED = (INSERT_FOUR, remove_tags, EXPIRE)
DROPPED = ("alter table {t} drop column age", "insert into {t} values (4, 'd')")
TABLES = [
    CuredTable(name="expired", reason=TableReason.GAP, cure=RESYNC, broken=EXPIRED),
    CuredTable(
        name="expired_later",
        reason=TableReason.GAP,
        cure="spec.changelog.onGap",
        broken=EXPIRED,
        step=2,
    ),
    CuredTable(name="dropped", reason=TableReason.INCOMPATIBLE_SCHEMA, cure=RESYNC, broken=DROPPED),
    CuredTable(
        name="dropped_later",
        reason=TableReason.INCOMPATIBLE_SCHEMA,
        cure="spec.changelog.onIncompatibleSchema",
        broken=DROPPED,
        step=2,
    ),
    CuredTable(
        name="taken",
        reason=TableReason.ALIAS_TAKEN,
        cure="spec.tables[].index",
        new=True,
        broken=[send_to_node("PUT", "/{alias}")],
        mended={"index": "moved"},
    ),
    CuredTable(
        name="misnamed",
        reason=TableReason.TABLE_NOT_FOUND,
        cure="spec.tables[].name",
        new=True,
        wrong={"name": "nowhere.nothing"},
    ),
    CuredTable(
        name="branch",
        reason=TableReason.BRANCH_NOT_FOUND,
        cure="spec.tables[].branch",
        new=True,
        wrong={"branch": "dev"},
        mended={"branch": "main"},
    ),
    CuredTable(
        name="no_column",
        reason=TableReason.COLUMN_NOT_FOUND,
        cure="the field that the message names",
        new=True,
        wrong={"identifierColumns": ["nope"]},
    ),
    CuredTable(
        name="filter",
        reason=TableReason.FILTER_INVALID,
        cure="spec.tables[].rowFilter",
        new=True,
        wrong={"rowFilter": "total > 1"},
        mended={"rowFilter": "age > 1"},
        where="age > 1",
    ),
    CuredTable(
        name="fields",
        reason=TableReason.FIELD_INVALID,
        cure="spec.tables[].fields",
        new=True,
        wrong={"fields": [take("id", "id"), derive("twice", "aeg * 2")]},
        mended={"fields": [take("id", "id"), take("name", "name")]},
        read=["id", "name"],
    ),
    CuredTable(
        name="routed",
        reason=TableReason.FIELD_INVALID,
        cure="spec.tables[].routing",
        new=True,
        columns="id int not null, name string, age int",
        broken=["alter table {t} set identifier fields id", INSERT_FOUR],
        wrong={"identifierColumns": None, "routing": ["name"]},
        mended={"identifierColumns": None, "routing": ["id"]},
    ),
    CuredTable(
        name="reserved",
        reason=TableReason.UNSUPPORTED_TYPE,
        cure="spec.tables[].columns",
        new=True,
        columns=build_schema_json({"id": "int", "_id": "int"}),
        fill="insert into {t} values (1, 1)",
        mended={"columns": ["id"]},
        read=["id"],
    ),
    CuredTable(
        name="no_key",
        reason=TableReason.NO_IDENTIFIER,
        cure="spec.tables[].identifierColumns",
        new=True,
        wrong={"identifierColumns": None},
    ),
    CuredTable(
        name="append_kept",
        reason=TableReason.NOT_APPEND_ONLY,
        cure=RESYNC,
        at_first={"appendOnly": True, "identifierColumns": None},
        broken=["delete from {t} where id = 1"],
    ),
    CuredTable(
        name="append_not",
        reason=TableReason.NOT_APPEND_ONLY,
        cure="spec.tables[].appendOnly",
        broken=["delete from {t} where id = 1"],
        at_first={"appendOnly": True, "identifierColumns": None},
        mended={"appendOnly": False, "identifierColumns": ["id"]},
        # Ids are others then, so the table is exported anew, where the pipeline allows it.
        step=2,
    ),
    spoil("lost_file", TableReason.DATA_FILE_MISSING, lose),
    spoil("cut_file", TableReason.FILE_UNREADABLE, cut),
    CuredTable(
        name="refused_one",
        reason=TableReason.DEAD_LETTER_LIMIT,
        cure="spec.sink.opensearch.deadLetters.policy",
        at_first={"mapping": {"name": UNLIMITED}},
        broken=[f"insert into {{t}} values (4, '{LONG}', 4), {_GOOD_ROWS}"],
        where="length(name) < 100",
        step=2,
    ),
    CuredTable(
        name="refused_two",
        reason=TableReason.DEAD_LETTER_LIMIT,
        cure="spec.sink.opensearch.deadLetters.maxRows",
        at_first={"mapping": {"name": UNLIMITED}},
        broken=[f"insert into {{t}} values (4, '{LONG}', 4), (5, '{LONG}', 5), {_GOOD_ROWS}"],
        where="length(name) < 100",
        step=3,
    ),
    *(
        CuredTable(
            name=f"blocked_{block}",
            reason=TableReason.TARGET_READ_ONLY,
            cure=f'index.blocks.{block}"',
            broken=[change_setting(f"blocks.{block}", True), INSERT_FOUR],
            acts=[send_cure(TableReason.TARGET_READ_ONLY, f'index.blocks.{block}"')],
        )
        for block in ("write", "read_only", "read_only_allow_delete")
    ),
    CuredTable(
        name="closed",
        reason=TableReason.TARGET_READ_ONLY,
        cure="/_open",
        broken=[send_to_index("POST", "/_close"), INSERT_FOUR],
        acts=[send_cure(TableReason.TARGET_READ_ONLY, "/_open")],
    ),
    CuredTable(
        name="piped",
        reason=TableReason.TARGET_INVALID,
        cure=RESYNC,
        broken=[change_setting("final_pipeline", "gone"), INSERT_FOUR],
        acts=[change_setting("final_pipeline", None)],
    ),
    CuredTable(
        name="edited",
        reason=TableReason.STATE_CORRUPT,
        cure="-X DELETE",
        broken=[break_state, INSERT_FOUR],
        acts=[send_cure(TableReason.STATE_CORRUPT, "-X DELETE")],
    ),
    CuredTable(
        name="no_catalog",
        reason=TableReason.CATALOG_INVALID,
        cure="spec.catalog.properties",
        new=True,
        wrong={"catalog": {"name": "nowhere", "properties": {"type": "gluee"}}},
    ),
    CuredTable(
        name="analyzed",
        reason=TableReason.MAPPING_INVALID,
        cure="spec.tables[].mapping",
        new=True,
        wrong={"mapping": {"name": {"type": "text", "analyzer": "none"}}},
        mended={"mapping": {"name": {"type": "text"}}},
    ),
    CuredTable(
        name="wide",
        reason=TableReason.MAPPING_INVALID,
        cure="spec.sink.opensearch.indexSettings",
        new=True,
        columns=f"id int, {', '.join(f'c{number} int' for number in range(30))}",
        fill=f"insert into {{t}} values (1{', 0' * 30})",
        step=2,
    ),
]

WRONG: Mapping[str, Any] = {
    "changelog": {"onGap": "Stop", "onIncompatibleSchema": "Stop"},
    "deadLetters": {"policy": "Stop", "maxRows": 1},
    "indexSettings": {"number_of_replicas": 0, "mapping.total_fields.limit": 20},
}
"""What the spec says in the first three runs: `changelog`, and parts of the sink."""
MENDED: Mapping[int, Mapping[str, Any]] = {
    2: {
        "changelog": {"onGap": "Reexport", "onIncompatibleSchema": "Reexport"},
        "deadLetters": {"policy": "Index", "maxRows": 1},
        "indexSettings": {"number_of_replicas": 0, "mapping.total_fields.limit": 1000},
    },
    3: {"deadLetters": {"policy": "Index", "maxRows": 10}},
}
"""What the cures of the pipeline make of it, in their order."""
