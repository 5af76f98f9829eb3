"""Row filters: the rows that they accept, and filters that depend on more than the row."""

import os
import re

import pytest

from icdc_api.errors import FilterInvalid
from icdc_spark.diff.rows import check_filter
from icdc_spark.readers.choose import open_reader
from icdc_testing.lake.lake import COPY_ON_WRITE, MERGE_ON_READ, Lake, Op

pytestmark = pytest.mark.spark

MODES = [pytest.param(COPY_ON_WRITE, 2, id="cow-v2"), pytest.param(MERGE_ON_READ, 3, id="mor-v3")]


@pytest.mark.parametrize(("mode", "version"), MODES)
def test_rows_enter_and_leave_the_index_with_the_filter(
    lake: Lake, mode: str, version: int
) -> None:
    name = lake.create("id int, c string, n int", mode=mode, version=version)
    lake.sql(
        f"insert into lake.{name} values (1, 'NL', 1), (2, 'NL', 2), (3, 'DE', 3), (4, null, 4)"
    )
    since = lake.read_head(name)
    lake.sql(f"update lake.{name} set c = 'DE' where id = 1")
    lake.sql(f"update lake.{name} set c = 'NL' where id = 3")
    lake.sql(f"update lake.{name} set n = 20 where id in (2, 4)")

    batch = lake.diff(name, since, row_filter="c = 'NL'", columns=("n",))

    assert batch.ops == [
        Op("c", "3", '{"n":3}'),
        Op("d", "1", None),
        Op("u", "2", '{"n":20}'),
    ]


def test_appended_rows_outside_the_filter_are_not_sent(lake: Lake) -> None:
    name = lake.create("id int, c string")
    lake.sql(f"insert into lake.{name} values (1, 'NL'), (2, 'DE')")
    assert lake.diff(name, None, row_filter="c = 'NL'").short == [("c", "1")]


@pytest.mark.parametrize("row_filter", ["nope = 1", "id +", "id", "sum(id) > 1"])
def test_a_filter_that_does_not_fit_is_refused(lake: Lake, row_filter: str) -> None:
    name = lake.create("id int")
    lake.sql(f"insert into lake.{name} values (1)")
    spec = lake.resolve_spec(name, row_filter=row_filter)
    with (
        open_reader(lake.session, lake.load_table(name), lake.read_head(name), spec) as reader,
        pytest.raises(FilterInvalid, match=re.escape(f"rowFilter `{row_filter}`")),
    ):
        check_filter(reader, spec)


NOT_OF_THE_ROW = [
    "ts > current_timestamp() - interval 30 days",
    "ts > now()",
    "d > current_date",
    "d > curdate()",
    "d > date 'today'",
    "d > date('yesterday')",
    "d > 'yesterday'",
    "ts < timestamp 'now'",
    "ts < timestamp_ntz'tomorrow'",
    "ts < localtimestamp()",
    "ts > timestamp '10:30:00'",
    "ts > timestamp_ltz ' 9:05'",
    "ts > 'T10:30'",
    "ts between '10:30' and '2024-01-01'",
    "hour(to_timestamp('10:30:00.5')) = id",
    "unix_timestamp() > id",
    "months_between(current_date(), d) < 3",
    "c = current_user()",
    "c = session_user()",
    "c = current_timezone()",
    "c = current_database()",
    "c = current_catalog()",
    "c = version()",
    "c = lake.system.iceberg_version()",
    "rand() < 0.5",
    "randn(3) < 0.5",
    "uniform(0, 10) < id",
    "c = randstr(3)",
    "c = uuid()",
    "id = any_value(shuffle(array(1, 2)))",
    "shuffle(array(id, 2))[0] = 1",
    "c = input_file_name()",
    "input_file_block_start() = 0",
    "monotonically_increasing_id() < 5",
    "spark_partition_id() = 0",
    "c = reflect('java.util.UUID', 'randomUUID')",
    "from_protobuf(unhex(c), 'P', '/etc/hostname') is null",
    "from_xml(c, 'a int', map('rowValidationXSDPath', '/etc/hostname')).a = 1",
    "c = java_method('java.lang.System', 'getenv', 'HOME')",
    "id in (select id from {t})",
    "exists (select 1 from {t} where id = 2)",
    "id < (select max(id) from {t})",
    "_file like '%x%'",
    "_pos < 5",
    "transform(array(id), x -> x + rand())[0] < 3",
]


@pytest.mark.parametrize("row_filter", NOT_OF_THE_ROW)
def test_a_filter_that_needs_more_than_the_row_is_refused(lake: Lake, row_filter: str) -> None:
    name = lake.create("id int, c string, ts timestamp, d date")
    lake.sql(f"insert into lake.{name} values (1, 'a', null, null)")
    row_filter = row_filter.format(t=f"lake.{name}")
    spec = lake.resolve_spec(name, row_filter=row_filter)
    with (
        open_reader(lake.session, lake.load_table(name), lake.read_head(name), spec) as reader,
        pytest.raises(FilterInvalid, match=re.escape(f"rowFilter `{row_filter}`")),
    ):
        check_filter(reader, spec)


OF_THE_ROW = [
    "c = 'now'",
    "c in ('today', 'tomorrow', '10:30')",
    "to_timestamp('10:30', 'HH:mm') < ts and concat(c, ' 10:30') = c",
    "ts > cast(10 as timestamp) and ts < timestamp '2024'",
    "d > '2024-01-01' and ts < timestamp '2026-01-01 00:00:00'",
    "d between date '2024-01-01' and date '2025-01-01'",
    "id + 1 between 3 and 5 or nullif(c, 'x') is null",
    "id > pi() * e()",
    "c rlike '^a' and lower(trim(c)) like 'a%' escape '!'",
    "c collate UNICODE_CI = 'A'",
    "exists(array(id, 2), x -> x > 1)",
    "aggregate(array(id), 0, (a, x) -> a + x) > 0",
    "try_cast(c as int) = 1 or coalesce(id, 0) <=> 1",
    "get_json_object(c, '$.a') = 'b' or from_json(c, 'a int').a = 1",
    "lake.system.bucket(4, id) < 3",
    "xxhash64(c, id) % 2 = 0 or md5(c) = 'x' or sha2(c, 256) = 'y'",
    "case when id = 1 then c = 'a' else size(array()) = 0 end",
    "date_trunc('month', ts) = timestamp '2024-01-01' or year(d) = 2024",
    "c = '${env:HOME}'",
    "c = 'from_protobuf(' and from_xml(c, 'a int', map('mode', 'PERMISSIVE')).a is null",
]


@pytest.mark.parametrize("row_filter", OF_THE_ROW)
def test_a_filter_may_compute_whatever_it_likes_from_the_row(lake: Lake, row_filter: str) -> None:
    name = lake.create("id int, c string, ts timestamp, d date")
    lake.sql(f"insert into lake.{name} values (1, 'a', null, null)")
    spec = lake.resolve_spec(name, row_filter=row_filter)
    with open_reader(lake.session, lake.load_table(name), lake.read_head(name), spec) as reader:
        check_filter(reader, spec)


def test_a_filter_cannot_read_the_environment_of_the_driver(lake: Lake) -> None:
    name = lake.create("id int, c string")
    lake.sql(f"insert into lake.{name} values (1, '{os.environ['HOME']}')")
    assert lake.diff(name, None, row_filter="c = '${env:HOME}'").ops == []
