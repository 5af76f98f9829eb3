"""An object store that refuses, cuts and shortens reads, and credentials that expire amid a stage.

The catalog vends the credentials of the files with each load of the table, as REST catalogs do.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from icdc_testing.lake.catalogs import rest_catalog

from . import object_store, store_runs
from .object_store import Harm
from .stored_shop import FILES, StoredShop

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoredShop]:
    folder = tmp_path_factory.mktemp("store")
    with (
        object_store.serve() as store,
        rest_catalog.serve() as catalog,
        store_runs.start_program(folder) as runs,
        closing(StoredShop(store, catalog, runs)) as shop,
    ):
        yield shop


@pytest.fixture
def shop(opened: StoredShop, clean_indices: str, tmp_path: Path) -> Iterator[StoredShop]:
    """A table of FILES rows that is followed already."""
    opened.url, opened.folder = clean_indices, tmp_path
    opened.create()
    opened.insert(1)
    opened.assert_follows(FILES)
    yield opened
    opened.store.heal()


@pytest.mark.sampled
@pytest.mark.parametrize("harm", Harm)
def test_a_few_harmed_reads_are_made_again(shop: StoredShop, harm: Harm) -> None:
    shop.insert(FILES + 1)
    fault = shop.store.harm(harm, times=2)
    shop.assert_follows(2 * FILES)
    assert fault.harmed == 2


PASSES: dict[tuple[Harm, str], str] = {
    (Harm.SLOW_DOWN, ".parquet"): "Please reduce your request rate",
    (Harm.SLOW_DOWN, ".avro"): "Please reduce your request rate",
    (Harm.CUT, ".parquet"): "Premature end of Content-Length delimited message body",
    # Its length is that of the manifest, so it is the answer that is short, and not the file.
    (Harm.SHORT, ".parquet"): "bytes, and of the last 4 it returned 2",
    (Harm.CUT, ".avro"): "Premature end of Content-Length delimited message body",
}


@pytest.mark.sampled
@pytest.mark.parametrize(("harm", "suffix"), PASSES)
def test_a_store_that_harms_all_reads_is_waited_out(
    shop: StoredShop, harm: Harm, suffix: str
) -> None:
    shop.insert(FILES + 1)
    shop.store.harm(harm, suffix, times=10_000)
    report = shop.run()
    shop.assert_passing(report, PASSES[harm, suffix])
    shop.store.heal()
    shop.assert_follows(2 * FILES)


def test_metadata_that_is_answered_in_part_is_damage_until_it_is_whole(shop: StoredShop) -> None:
    shop.insert(FILES + 1)
    shop.store.harm(Harm.SHORT, ".avro", times=10_000)
    (table,) = shop.run().tables
    assert table.reason == "FileUnreadable"
    assert "ends too early" in (table.message or "")
    shop.store.heal()
    shop.assert_follows(2 * FILES)


def test_credentials_that_expire_amid_a_stage_are_replaced_by_the_next_run(
    shop: StoredShop,
) -> None:
    shop.insert(FILES + 1)
    key = shop.vend()
    shop.store.expire(key, after=1)
    shop.assert_passing(shop.run(), "the credentials of the table's files have expired")
    used = {read.status for read in shop.store.reads if read.access_key == key}
    assert {206, 400} <= used
    shop.vend()
    shop.assert_follows(2 * FILES)
