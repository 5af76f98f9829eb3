"""The name of the catalog's or of the store's host cannot be resolved for a while.

The table's status names the host, and the run is tried again by itself.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from icdc_testing.lake.catalogs import rest_catalog
from icdc_testing.runs.own_names import OwnNames
from icdc_testing.waiting.wait import wait_until

from . import object_store, store_runs
from .stored_shop import FILES, StoredShop

pytestmark = pytest.mark.spark

CATALOG, STORE = "catalog.test", "store.test"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> OwnNames:
    return OwnNames(tmp_path_factory.mktemp("known") / "names", CATALOG, STORE)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, names: OwnNames) -> Iterator[StoredShop]:
    folder = tmp_path_factory.mktemp("store")
    with (
        object_store.serve() as store,
        rest_catalog.serve() as catalog,
        store_runs.start_program(folder, python=names.python) as runs,
        closing(StoredShop(store, catalog, runs)) as shop,
    ):
        shop.catalog_host, shop.store_host = CATALOG, STORE
        store.ends_connections = True
        yield shop


@pytest.mark.parametrize("name", [CATALOG, STORE])
def test_a_host_of_the_source_whose_name_is_lost_is_named_and_waited_for(
    opened: StoredShop, names: OwnNames, clean_indices: str, tmp_path: Path, name: str
) -> None:
    shop = opened
    shop.url, shop.folder = clean_indices, tmp_path
    shop.create()
    shop.insert(1)
    shop.assert_follows(FILES)
    shop.insert(FILES + 1)
    names.forget(name)
    try:
        cause = f"cannot be resolved (java.net.UnknownHostException: {name}"
        shop.assert_passing(shop.run(), cause)
    finally:
        names.restore()
    # Java goes on for ten seconds to say that it is unknown.
    wait_until(lambda: shop.run().outcome is None, f"{name} is known again")
    shop.assert_follows(2 * FILES)
