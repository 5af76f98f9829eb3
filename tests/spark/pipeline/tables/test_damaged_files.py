"""Tables with damaged files: each says which file and why, and the others go on.

One pipeline with all of them. A damaged table changes neither its index nor what its state
document says is applied; once the file is put back, the next run comes through.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from icdc_api.job.modes import RunMode
from icdc_testing.lake.damage import (
    ADDED,
    DELETES,
    LIST,
    MANIFEST,
    METADATA,
    OLD_MANIFEST,
    REMOVED,
    Damage,
    Find,
    How,
    change_byte,
    cut,
    find_version_hint,
    garble,
    lose,
    raise_version,
)
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.playing import Stages, assert_played
from icdc_testing.tables.scenarios import (
    COW2,
    MOR2,
    MOR3,
    Format,
    Op,
    Scenario,
    ScenarioStep,
    ScenarioTable,
    put,
    remove,
    select_rows,
)

pytestmark = pytest.mark.spark

FILL = "insert into {t} " + select_rows("(1,'needle',1), (2,'b',2), (3,'c',3)")
FILLED = [put(str(n), id=n, name=name, age=n) for n, name in ((1, "needle"), (2, "b"), (3, "c"))]
INSERT = "insert into {t} values (4,'needles',4)", put("4", id=4, name="needles", age=4)
UPDATE = "update {t} set name = 'bb' where id = 2", put("2", id=2, name="bb", age=2)
DELETE = "delete from {t} where id = 2", remove("2")
PLAIN = "alter table {t} set tblproperties ('write.parquet.compression-codec'='uncompressed')"

MISSING = (
    "{n}: a file of the snapshot is missing (java.io.FileNotFoundException: File {file} "
    "does not exist)"
)
SHORT = "{n}: the file {file} is damaged: it has {left} bytes, but its manifest says {whole}"
ENDS = "{n}: the file {file} is damaged: it does not begin and end as a file of the format %s does"
EARLY = "{n}: a file of the table ends too early ({file}: java.io.EOFException)"
PAGE = (
    "{n}: a file of the table is damaged (org.apache.iceberg.shaded.org.apache.parquet.io."
    "ParquetDecodingException: could not verify page integrity, CRC checksum verification failed); "
    "it is {file}"
)
NO_METADATA = (
    "{n}: the table's metadata file is missing (org.apache.iceberg.exceptions.ValidationException: "
    "Metadata file for version {number} is missing under {folder})"
)
HALF_METADATA = (
    "{n}: the table's metadata file is damaged ({file}: org.apache.iceberg.shaded.com.fasterxml."
    "jackson.core.io.JsonEOFException: Unexpected end-of-input in VALUE_STRING)"
)
NEWER = (
    "{n}: the table's metadata has a newer format version than this Iceberg can read; use an image "
    "with a newer Iceberg (spec.spark.image) (java.lang.IllegalArgumentException: Cannot read "
    "unsupported version 9)"
)
NO_AVRO = (
    "{n}: a file of the table is damaged ({file}: "
    "org.apache.iceberg.shaded.org.apache.avro.InvalidAvroMagicException: Not an Avro data file)"
)


def set_file_format(kind: str) -> str:
    return f"alter table {{t}} set tblproperties ('write.format.default'='{kind}')"


def damage_scenario(
    name: str,
    find: Find,
    how: How,
    reason: str,
    message: str,
    *,
    change: tuple[str, Op] = INSERT,
    table: Format = COW2,
    before: Sequence[str] = (),
    asked: RunMode | None = None,
) -> Scenario:
    """Return a table whose second batch meets a damaged file; `asked` meets it too."""
    damage = Damage(find, how)
    statement, write = change

    def check(stage: ScenarioTable) -> None:
        check_first_is_applied(stage)
        if asked is not None:
            answer = read_answer(stage, asked)
            assert (answer["reason"], answer["message"]) == (reason, stage.fill_names(message))

    return Scenario(
        name=name,
        format=table,
        steps=[
            ScenarioStep(do=[*before, FILL], writes=FILLED),
            ScenarioStep(do=[statement, damage.do], reason=reason, message=message, check=check),
            ScenarioStep(do=[damage.undo], writes=[write]),
        ],
    )


def check_first_is_applied(stage: ScenarioTable) -> None:
    """Require the state that the first batch left, but for an intent of the second."""
    path = f"icdc-state/_doc/{stage.scenario.alias}"
    state: dict[str, Any] = stage.call("GET", path)["_source"]
    intent = state["intent"] or {"ordinal": 2, "from": state["applied"]["snapshotId"]}
    assert state["applied"]["ordinal"] == 1
    assert intent["ordinal"] == 2
    assert intent["from"] == state["applied"]["snapshotId"]


def read_answer(stage: ScenarioTable, mode: RunMode) -> dict[str, Any]:
    """Run plan or verify for this table alone; return its answer."""
    with TemporaryDirectory() as folder:
        harness = Harness(stage.spark, stage.url, Path(folder), [stage.entry], name="scenarios")
        return harness.inspect(mode)


def make_never_exported(name: str, how: How, reason: str, message: str) -> Scenario:
    """Return a table whose export meets a damaged file."""
    damage = Damage(ADDED, how)
    step = ScenarioStep(do=[FILL, damage.do], reason=reason, message=message, documents={})
    return Scenario(name=name, steps=[step, ScenarioStep(do=[damage.undo], writes=FILLED)])


def make_taken_out() -> Scenario:
    """A newer commit without the file does not help: a part of the open batch may be written."""
    damage = Damage(ADDED, cut)
    return Scenario(
        name="added_taken_out",
        steps=[
            ScenarioStep(do=[FILL], writes=FILLED),
            ScenarioStep(do=[INSERT[0], damage.do], reason=BAD, message=SHORT),
            # Of the whole file, so that nobody has to read it.
            ScenarioStep(do=["delete from {t} where id = 4"], reason=BAD, message=SHORT),
            ScenarioStep(do=[damage.undo], writes=[INSERT[1], remove("4")]),
        ],
    )


def make_without_hint() -> Scenario:
    """Nothing that is needed is gone: the catalog finds the newest metadata by its name."""
    damage = Damage(find_version_hint, lose)
    second = ScenarioStep(do=[INSERT[0], damage.do], writes=[INSERT[1]])
    return Scenario(name="hint_missing", steps=[ScenarioStep(do=[FILL], writes=FILLED), second])


HEALTHY = Scenario(
    name="healthy",
    steps=[
        ScenarioStep(do=[FILL], writes=FILLED),
        ScenarioStep(do=[UPDATE[0]], writes=[UPDATE[1]]),
        ScenarioStep(do=[DELETE[0]], writes=[DELETE[1]]),
    ],
)
REMOVED_rows, BAD = "DataFileMissing", "FileUnreadable"
PLAN, VERIFY = RunMode.PLAN, RunMode.VERIFY
SCENARIOS = [
    HEALTHY,
    make_without_hint(),
    make_taken_out(),
    damage_scenario("added_missing", ADDED, lose, REMOVED_rows, MISSING),
    damage_scenario("added_cut", ADDED, cut, BAD, SHORT),
    damage_scenario("added_page", ADDED, change_byte, BAD, PAGE, before=[PLAIN]),
    damage_scenario("avro_cut", ADDED, cut, BAD, SHORT, before=[set_file_format("avro")]),
    damage_scenario(
        "removed_garbage", REMOVED, garble, BAD, ENDS % "PARQUET", change=UPDATE, asked=VERIFY
    ),
    damage_scenario(
        "deletes_missing", DELETES, lose, REMOVED_rows, MISSING, change=DELETE, table=MOR2
    ),
    damage_scenario(
        "vector_missing", DELETES, lose, REMOVED_rows, MISSING, change=DELETE, table=MOR3
    ),
    damage_scenario(
        "vector_garbage", DELETES, garble, BAD, ENDS % "PUFFIN", change=DELETE, table=MOR3
    ),
    damage_scenario("manifest_missing", MANIFEST, lose, REMOVED_rows, MISSING, asked=PLAN),
    damage_scenario("manifest_cut", MANIFEST, cut, BAD, EARLY, asked=PLAN),
    damage_scenario("old_manifest_garbage", OLD_MANIFEST, garble, BAD, NO_AVRO, change=UPDATE),
    damage_scenario("list_missing", LIST, lose, REMOVED_rows, MISSING, asked=PLAN),
    damage_scenario("metadata_missing", METADATA, lose, REMOVED_rows, NO_METADATA, asked=PLAN),
    damage_scenario("metadata_cut", METADATA, cut, BAD, HALF_METADATA, asked=PLAN),
    damage_scenario("metadata_newer", METADATA, raise_version, BAD, NEWER, asked=VERIFY),
    make_never_exported("export_missing", lose, REMOVED_rows, MISSING),
    make_never_exported("export_garbage", garble, BAD, ENDS % "PARQUET"),
]


@pytest.fixture(scope="module")
def stages(play: Callable[..., Stages]) -> Stages:
    return play(SCENARIOS)


@pytest.mark.parametrize("alias", [scenario.alias for scenario in SCENARIOS])
def test_a_damaged_table_names_its_file_and_the_others_go_on(stages: Stages, alias: str) -> None:
    assert_played(stages[alias])
