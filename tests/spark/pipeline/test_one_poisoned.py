"""Tables that cannot be followed for a reason of their own: each stalls alone and says why."""

import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from icdc_api.job import RunMode
from icdc_spark.iceberg.tables import IcebergTable
from support_events import FILL, FILLED, FOUR, INSERT_FOUR
from support_faultproxy import FaultProxy
from support_faults import Hold, Status
from support_harness import Harness
from support_lake import Lake
from support_processes import connected_to, kill, python_workers
from support_schemas import fields_json
from support_stories import Stage, Step, Story, put, rows
from support_telling import Told, assert_told

pytestmark = pytest.mark.spark

NEW_COLUMNS = "alter table {t} add columns (c1 int, c2 int)"
INSERT = "insert into {t} values (4, 'd', 4, 1, 2)"


def few_fields(stage: Stage) -> None:
    """The administrator of OpenSearch allows no field more than the index has."""
    limit = {"index.mapping.total_fields.limit": 4}
    stage.call("PUT", f"{stage.story.alias}-000001/_settings", limit)


def in_nanoseconds(stage: Stage) -> None:
    """Another writer has written the times of commits in nanoseconds."""
    table = IcebergTable.load(stage.spark, stage.story.catalog, stage.name)
    path = Path(table.metadata_location.removeprefix("file:"))
    metadata = json.loads(path.read_text(encoding="utf-8"))
    for each in metadata["snapshots"]:
        each["timestamp-ms"] *= 1_000_000
    path.write_text(json.dumps(metadata), encoding="utf-8")


def key_twice(folder: Path) -> Callable[[Stage], None]:
    """Another engine has written a map that holds one key twice."""

    def act(stage: Stage) -> None:
        maps = pa.array([[(4711, "x"), (4711, "y")]], pa.map_(pa.int32(), pa.string()))
        ids = pa.array([1], pa.int32())
        folder.mkdir()
        pq.write_table(pa.table({"id": ids, "m": maps}), folder / "part.parquet")
        source = f"`parquet`.`{folder}`"
        stage.sql(f"call {{c}}.system.add_files(table => '{{n}}', source_table => '{source}')")

    return act


BY_CASE: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"id": number, "name": name, "type": "string", "required": False}
        for number, name in enumerate(("x", "X"), start=11)
    ],
}


def by_case(statement: str) -> Callable[[Stage], None]:
    """Somebody whose Spark tells names by case writes the table."""

    def act(stage: Stage) -> None:
        session = stage.spark.newSession()
        session.conf.set("spark.sql.caseSensitive", "true")
        session.sql(stage.told(statement)).collect()

    return act


BOTH_CASES = "(1, 'b', 'c', struct('d', 'e')), (2, 'hidden', '', null)"

NAMES_BY_CASE = Story(
    name="by_case",
    columns=fields_json({"id": "int", "a": "string", "A": "string", "s": BY_CASE}),
    entry={"rowFilter": "a <> 'hidden'"},
    steps=[
        Step(
            do=[
                by_case("insert into {t} values (1,'b','c',struct('d','e')), (2,'hidden','',null)")
            ],
            writes=[put("1", id=1, a="b", A="c", s={"x": "d", "X": "e"})],
            documents={"1": {"id": 1, "a": "b", "A": "c", "s": {"x": "d", "X": "e"}}},
        ),
        Step(
            do=[by_case("update {t} set A = 'f' where a = 'b'")],
            writes=[put("1", id=1, a="b", A="f", s={"x": "d", "X": "e"})],
            documents={"1": {"id": 1, "a": "b", "A": "f", "s": {"x": "d", "X": "e"}}},
        ),
    ],
)


WIDE = Story(
    name="wide",
    columns=fields_json({"id": "int", **{f"c{n}": "int" for n in range(1000)}}),
    steps=[
        Step(
            reason="MappingInvalid",
            message="{n}: OpenSearch refused to make index 'wide-cow2-000001', check "
            "sink.opensearch.indexSettings and tables[].mapping: Limit of total fields "
            "[1000] has been exceeded",
            documents={},
        )
    ],
)

WIDENED = Story(
    name="widened",
    steps=[
        Step(do=[FILL], writes=FILLED),
        Step(
            do=[few_fields, NEW_COLUMNS, INSERT],
            reason="MappingInvalid",
            message="{n}: OpenSearch refused the fields `c1`, `c2` for index "
            "'widened-cow2-000001': Limit of total fields [4] has been exceeded; see the "
            "settings of the index, such as index.mapping.total_fields.limit, and "
            "tables[].mapping",
        ),
    ],
)

CAST = Story(
    name="cast",
    entry={"rowFilter": "cast(name as int) > 0"},
    steps=[
        Step(
            do=["insert into {t} " + rows("(1,'1',1), (2,'secret-4711',2)")],
            reason="FilterInvalid",
            message="{n}: rowFilter fails on a row of the table ([CAST_INVALID_INPUT]): "
            "write it so that it holds for every value, such as with try_cast, try_divide "
            "or nullif",
            documents={},
        )
    ],
)


def stories(folder: Path) -> list[Story]:
    healthy = Step(do=[FILL], writes=FILLED)
    return [
        Story(name="first", steps=[healthy, Step()]),
        WIDE,
        WIDENED,
        CAST,
        Story(
            name="key_twice",
            columns="id int, m map<int,string>",
            steps=[
                Step(
                    do=[key_twice(folder / "files")],
                    reason="FileUnreadable",
                    message="{n}: a map in a row holds the same key more than once "
                    "([DUPLICATED_MAP_KEY]), so it has no document: rewrite that row, or leave "
                    "its column out by naming the other columns in `columns`; it is "
                    f"file:{folder}/files/part.parquet",
                    documents={},
                )
            ],
        ),
        NAMES_BY_CASE,
        Story(
            name="nanoseconds",
            steps=[
                Step(do=[FILL, in_nanoseconds], writes=FILLED),
                Step(do=[INSERT_FOUR], writes=[FOUR]),
            ],
        ),
        Story(name="last", steps=[healthy, Step()]),
    ]


ALIASES = [story.alias for story in stories(Path())]


@pytest.fixture(scope="module")
def told(teller: Callable[..., Told], tmp_path_factory: pytest.TempPathFactory) -> Told:
    return teller(stories(tmp_path_factory.mktemp("poison")), retry={"initialSeconds": 1})


@pytest.mark.parametrize("alias", ALIASES)
def test_a_poisoned_table_stalls_alone_and_says_why(told: Told, alias: str) -> None:
    assert_told(told[alias])


class WorkerKiller:
    """Ends the Python worker that sends a matching request, as the kernel does for memory, some
    times in a row."""

    def __init__(self, proxy: FaultProxy, path: str, *, times: int) -> None:
        self._proxy = proxy
        self._holds = [Hold(after=False) for _ in range(times)]
        for each in self._holds:
            proxy.add(each, path=path)
        self._thread = threading.Thread(target=self._work)
        self.killed = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _work(self) -> None:
        for each in self._holds:
            each.wait()
            (busy,) = connected_to(python_workers(), self._proxy.port)
            kill(busy)
            each.drop()
            self.killed += 1


@pytest.fixture
def three(lake: Lake) -> list[str]:
    """Three tables of one row, of which the second is the poisoned one."""
    names = [lake.create("id int, name string") for _ in range(3)]
    for name in names:
        lake.sql(f"insert into lake.{name} values (1, 'a')")
    return names


def harness(spark: SparkSession, proxy: FaultProxy, folder: Path, three: list[str]) -> Harness:
    entries = [
        {"name": name, "identifierColumns": ["id"], "index": index}
        for name, index in zip(three, ("before", "poisoned", "after"), strict=True)
    ]
    return Harness(spark, proxy.url, folder, entries, retry={"initialSeconds": 1})


def test_pyspark_logs_no_row_that_a_filter_fails_on(
    spark: SparkSession, lake: Lake, proxy: FaultProxy, three: list[str], tmp_path: Path
) -> None:
    lake.sql(f"insert into lake.{three[1]} values (2, 'secret-4711')")
    pipeline = harness(spark, proxy, tmp_path, three)
    pipeline.resource["spec"]["tables"][1]["rowFilter"] = "cast(name as int) > 0"
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    logger.addHandler(handler)
    try:
        assert pipeline.run().tables[1].reason == "FilterInvalid"
    finally:
        logger.removeHandler(handler)
    assert logged == []


def test_what_nobody_foresaw_is_tried_a_few_times_and_stalls_its_table_alone(
    spark: SparkSession, proxy: FaultProxy, three: list[str], tmp_path: Path
) -> None:
    odd = proxy.add(Status(418, kind="teapot"), method="PUT", path="/poisoned-0", times=None)
    pipeline = harness(spark, proxy, tmp_path, three)
    report = pipeline.run()

    assert report.outcome is None
    assert [(each.state, each.reason) for each in report.tables] == [
        ("Streaming", None),
        ("Stalled", "Bug"),
        ("Streaming", None),
    ]
    assert report.tables[1].message == f"OpenSearch at {proxy.url} answered 418 (teapot)."
    assert odd.hits == 3
    proxy.clear()
    assert [each.reason for each in pipeline.run().tables] == [None, None, None]


def test_a_failure_that_passes_at_the_second_try_is_none(
    spark: SparkSession, proxy: FaultProxy, three: list[str], tmp_path: Path
) -> None:
    proxy.add(Status(418, kind="teapot"), method="PUT", path="/poisoned-0")
    report = harness(spark, proxy, tmp_path, three).run()
    assert [(each.state, each.reason) for each in report.tables] == [("Streaming", None)] * 3
    assert report.outcome is None


def test_what_nobody_foresaw_ends_no_answer_of_the_other_tables(
    spark: SparkSession, proxy: FaultProxy, three: list[str], tmp_path: Path
) -> None:
    pipeline = harness(spark, proxy, tmp_path, three)
    pipeline.run()
    proxy.add(Status(418, kind="teapot"), path="/poisoned-0.*/_mapping", times=None)
    proxy.add(Status(418, kind="teapot"), path="/poisoned-0.*/_search", times=None)
    report = pipeline.run(RunMode.VERIFY)
    assert report.outcome is not None
    assert report.outcome.reason == "Bug"
    assert report.result is not None
    assert [each["name"] for each in report.result["tables"]] == [three[0], three[2]]


def test_a_table_whose_python_workers_die_again_and_again_is_tried_again_by_the_next_run(
    spark: SparkSession, proxy: FaultProxy, lake: Lake, three: list[str], tmp_path: Path
) -> None:
    pipeline = harness(spark, proxy, tmp_path, three)
    pipeline.run()
    lake.sql(f"insert into lake.{three[1]} values (2, 'b')")
    killer = WorkerKiller(proxy, "/poisoned-0.*/_bulk", times=4)
    with killer:
        report = pipeline.run()
    assert killer.killed == 4
    assert report.outcome is not None
    assert (report.outcome.failure_class, report.outcome.retryable) == ("OutOfMemory", True)
    assert "a Python worker died, most likely for memory" in report.outcome.message
    assert [(each.state, each.reason) for each in report.tables] == [
        ("Streaming", None),
        ("Streaming", "OutOfMemory"),
        ("Streaming", None),
    ]
    assert [each.reason for each in pipeline.run().tables] == [None, None, None]
