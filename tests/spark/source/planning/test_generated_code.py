"""What batches compile: the code that Spark generates is the same for each batch of a table."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from pyspark.sql import DataFrame, SparkSession

from icdc_spark.diff.change_plan import choose_planner
from icdc_spark.diff.strategies import Strategy, build_change_lines
from icdc_spark.readers.choose import open_reader
from icdc_testing.lake.lake import COPY_ON_WRITE, MERGE_ON_READ, Lake
from icdc_testing.tables.fields import derive, parse_fields

pytestmark = pytest.mark.spark

_METRICS = "org.apache.spark.metrics.source.CodegenMetrics"
_DEBUG = "org.apache.spark.sql.execution.debug.package"
_MOST_BYTES = 8_000
"""Of a method: the JVM compiles no greater one."""


@pytest.fixture(autouse=True)
def generated(spark: SparkSession) -> Iterator[None]:
    """Let Spark generate code, which other tests do without."""
    names = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")
    chosen = {name: spark.conf.get(name) for name in names}
    for name, wanted in zip(names, ("true", "CODEGEN_ONLY"), strict=True):
        spark.conf.set(name, wanted)
    yield
    for name, value in chosen.items():
        spark.conf.set(name, str(value))


def count_compiled(spark: SparkSession) -> int:
    """Return how many generated classes this JVM has compiled."""
    jvm = spark._jvm
    assert jvm is not None
    return int(getattr(jvm, _METRICS).METRIC_COMPILATION_TIME().getCount())


@pytest.mark.parametrize(
    ("mode", "strategy"),
    [
        (COPY_ON_WRITE, Strategy.ONE_READ),
        (COPY_ON_WRITE, Strategy.TWO_READS),
        (COPY_ON_WRITE, Strategy.LINEAGE),
        (MERGE_ON_READ, Strategy.ONE_READ),
        (MERGE_ON_READ, Strategy.STREAM),
        (MERGE_ON_READ, Strategy.LINEAGE),
    ],
)
def test_a_batch_compiles_nothing_that_an_earlier_one_has_compiled(
    spark: SparkSession, lake: Lake, mode: str, strategy: Strategy
) -> None:
    name = lake.create("id bigint, name string, price double", mode=mode, version=3)
    lake.sql(f"insert into lake.{name} select id, string(id), double(id) from range(1000)")
    heads = [lake.read_head(name)]
    for number in range(4):
        lake.sql(f"update lake.{name} set price = price + 1 where id = {number}")
        heads.append(lake.read_head(name))
    compiled = []
    for ordinal, (since, until) in enumerate(pairwise(heads)):
        before = count_compiled(spark)
        table, spec = lake.load_table(name), lake.resolve_spec(name, until)
        plan = choose_planner(spec)(table, since, until)
        with open_reader(spark, table, until, spec) as reader:
            version = (ordinal + 1) << 20
            lines = build_change_lines(reader, plan, spec, version=version, strategy=strategy)
            (row,) = lines.frame.collect()
        assert f'"version":{version},' in bytes(row["line"]).decode()
        compiled.append(count_compiled(spark) - before)
    # The first compiles all; in the second there is one file more to be read by merge-on-read.
    assert compiled[2:] == [0, 0], compiled


def measure_methods(frame: DataFrame) -> list[int]:
    """Return the bytes of the greatest method of each stage of a query that has run."""
    debug = getattr(frame.sparkSession._jvm, f"{_DEBUG}$")
    plan = frame._jdf.queryExecution().executedPlan()
    stages = getattr(debug, "MODULE$").codegenStringSeq(plan)
    return [int(stages.apply(at)._3().maxMethodCodeSize()) for at in range(stages.size())]


def test_the_jvm_compiles_what_evaluates_twenty_expressions(
    spark: SparkSession, lake: Lake
) -> None:
    columns = [f"s{at}" for at in range(15)] + [f"d{at}" for at in range(4)]
    name = lake.create(
        "id bigint, "
        + ", ".join(f"{one} {'string' if one[0] == 's' else 'double'}" for one in columns),
        mode=MERGE_ON_READ,
    )
    lake.sql(f"insert into lake.{name} select id, {', '.join(['id'] * 19)} from range(100)")
    since = lake.read_head(name)
    lake.sql(f"update lake.{name} set s0 = 'x' where id = 7")
    fields = parse_fields(
        derive("id", "id + 1"),
        *(
            derive(one, f"upper(concat({one}, '-'))" if one[0] == "s" else f"round({one} * 1.2, 2)")
            for one in columns
        ),
    )
    table, until = lake.load_table(name), lake.read_head(name)
    spec = lake.resolve_spec(name, until, fields=fields)
    plan = choose_planner(spec)(table, since, until)
    with open_reader(spark, table, until, spec) as reader:
        lines = build_change_lines(reader, plan, spec, version=1, strategy=Strategy.ONE_READ)
        assert len(lines.frame.collect()) == 1
    methods = measure_methods(lines.frame)
    assert max(methods) <= _MOST_BYTES, methods
