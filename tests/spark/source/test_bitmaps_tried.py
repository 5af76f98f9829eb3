"""Keys are compared by bitmaps only where column bounds in manifests show that it pays."""

from collections.abc import Iterable
from typing import Any

import pytest

from icdc_spark.diff import key_bitmaps
from icdc_spark.iceberg.scan.column_bounds import estimate_key_range
from icdc_spark.iceberg.scan.planning import list_files
from icdc_testing.lake.lake import COPY_ON_WRITE, MERGE_ON_READ, Lake
from icdc_testing.lake.lineage import LEFT, NOT_TRIED, SHOWN, compute_by_lineage, create_filled

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("columns", "keys", "mode", "properties", "wishes"),
    [
        pytest.param("id string, v string", range(8), COPY_ON_WRITE, "", {}, id="texts"),
        pytest.param("id date, v string", range(8), COPY_ON_WRITE, "", {}, id="dates"),
        pytest.param("id int, v string", range(0, 90, 9), COPY_ON_WRITE, "", {}, id="far apart"),
        pytest.param("id int, v string", range(8), MERGE_ON_READ, "", {}, id="deleted in place"),
        pytest.param(
            "id int, v string",
            range(8),
            COPY_ON_WRITE,
            ", 'write.metadata.metrics.default'='none'",
            {},
            id="no bounds",
        ),
        pytest.param(
            "id int, v string",
            range(8),
            COPY_ON_WRITE,
            "",
            {"identifier_columns": ("id", "v")},
            id="a number and a text",
        ),
    ],
)
def test_bits_are_not_tried_where_they_cannot_pay(
    lake: Lake,
    bitmap_trials: list[bool],
    columns: str,
    keys: Iterable[int],
    mode: str,
    properties: str,
    wishes: dict[str, Any],
) -> None:
    shown = "date_from_unix_date({})" if "date" in columns else "{}"
    rows = (f"({shown.format(key)}, 'a')" for key in keys)
    name, since = create_filled(lake, columns, rows, mode=mode, properties=properties)
    lake.sql(f"update lake.{name} set v = 'b' where id <= {shown.format(1)}")

    batch = compute_by_lineage(lake, name, since, **wishes)

    assert bitmap_trials == NOT_TRIED
    assert batch.ops


def test_bits_are_not_tried_where_other_rows_were_deleted_in_place(
    lake: Lake, bitmap_trials: list[bool]
) -> None:
    name, _ = create_filled(
        lake, "id int, v string", (f"({key}, 'a')" for key in range(1, 9)), mode=MERGE_ON_READ
    )
    others = "select id, 'a' from values (11), (12), (13), (14) as t(id)"
    lake.sql(f"insert into lake.{name} select /*+ coalesce(1) */ * from ({others})")
    since = lake.read_head(name)
    lake.sql(f"delete from lake.{name} where id = 3")
    lake.sql(f"alter table lake.{name} set tblproperties('write.update.mode'='{COPY_ON_WRITE}')")
    lake.sql(f"update lake.{name} set v = 'b' where id = 12")

    assert compute_by_lineage(lake, name, since).short == [("d", "3"), ("u", "12")]
    assert bitmap_trials == NOT_TRIED


def test_more_words_than_metadata_promised_are_left_to_others(
    lake: Lake, bitmap_trials: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, since = create_filled(
        lake, "id int, v string", (f"({key}, 'a')" for key in range(0, 640, 10))
    )
    lake.sql(f"update lake.{name} set v = 'b' where id > 300")
    monkeypatch.setattr(key_bitmaps, "can_compare_keys", lambda *_: True)
    monkeypatch.setattr(key_bitmaps, "MAX_WORDS", 9)

    batch = compute_by_lineage(lake, name, since)
    assert bitmap_trials == LEFT
    monkeypatch.setattr(key_bitmaps, "MAX_WORDS", 10)
    assert compute_by_lineage(lake, name, since) == batch
    assert bitmap_trials == [*LEFT, *SHOWN]


def test_the_spread_of_keys_is_told_by_a_few_files(lake: Lake) -> None:
    name = lake.create("n bigint, id int, t string", version=3)
    for first in range(0, 100, 10):
        keys = f"select id, int(id), string(id) from range({first}, {first + 10}, 3)"
        lake.sql(f"insert into lake.{name} select /*+ coalesce(1) */ * from ({keys})")
    lake.sql(f"call lake.system.rewrite_manifests('{name}')")
    lake.sql(f"alter table lake.{name} alter column id type bigint")
    lake.sql(f"alter table lake.{name} add column later bigint")
    table, head = lake.load_table(name), lake.read_head(name)
    group = list_files(table, head).group(list_files(table, head).files)

    assert group.files == 10
    # From the first to the last of four keys each.
    assert estimate_key_range(table, head, group, [1]) == 100
    assert estimate_key_range(table, head, group, [2]) == 100
    assert estimate_key_range(table, head, group, [1, 2]) == 1_000
    assert estimate_key_range(table, head, group, [4]) is None
    assert estimate_key_range(table, head, list_files(table, None).group(()), [1]) is None
