"""Reading the heads of a pipeline's tables: what is told apart, shared, bounded and healed."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from icdc_api.errors import Bug, SourceUnavailable, Unauthorized
from icdc_api.spec.pipeline import PipelineSpec
from icdc_operator.cluster.heads import table_heads as heads
from icdc_operator.cluster.heads.catalog_properties import PyCatalog
from icdc_operator.cluster.heads.catalog_secrets import CatalogSecrets
from icdc_operator.cluster.heads.connections import OfOwnProcess, OpenConnection, Readers
from icdc_operator.cluster.heads.lanes import CallLimits
from icdc_operator.cluster.heads.table_heads import Head, HeadReader, Unseen
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.metrics import Metrics
from icdc_testing.lake.catalogs.head_lake import HeadLake
from icdc_testing.lake.catalogs.readers import ON_LOOPBACK
from icdc_testing.operator.adapter.fakes.api import FakeServer
from icdc_testing.operator.deciding.pipelines import make_spec

pytestmark = pytest.mark.unit


Act = Callable[[Sequence[str]], Awaitable[int | None]]


class FakeReaders:
    """Readers of one catalog that does what `act` does, in place of one that fails or hangs."""

    def __init__(self, act: Act) -> None:
        self.act = act
        self.connections: list[PyCatalog] = []
        self.closed = 0

    async def connect(self, catalog: PyCatalog) -> OpenConnection:
        self.connections.append(catalog)
        return FakeConnection(self)

    def close(self) -> None:
        pass


class FakeConnection:
    """One of `FakeReaders`."""

    def __init__(self, readers: FakeReaders) -> None:
        self._readers = readers

    async def read_head(self, table: Sequence[str], branch: str, seconds: float) -> int | None:
        return await self._readers.act(table)

    def close(self) -> None:
        self._readers.closed += 1


async def return_seven(table: Sequence[str]) -> int | None:
    return 7


class ReaderWorld:
    """A reader on fake or real catalogs."""

    def __init__(
        self, readers: Readers | None = None, *, seconds: float = 60.0, max_catalogs: int = 8
    ) -> None:
        self.metrics = Metrics()
        self._readers, self._seconds, self._max = readers, seconds, max_catalogs

    def make_reader(self) -> HeadReader:
        return HeadReader(
            CatalogSecrets(FakeServer().make_api(), allowed=False),
            self.metrics,
            self._readers or OfOwnProcess(ON_LOOPBACK),
            limits=CallLimits(2, of_namespace=2),
            table_seconds=self._seconds,
            max_catalogs=self._max,
        )

    def read(self, *specs: PipelineSpec) -> dict[str, Head | Unseen]:
        """Read the specs one after the other by one reader; return the last result."""

        async def play() -> dict[str, Head | Unseen]:
            reader = self.make_reader()
            for spec in specs:
                by_table = await reader.read("default", heads.list_branches(spec))
            reader.close()
            return by_table

        return asyncio.run(play())


def build_spec(*tables: str, **properties: str) -> PipelineSpec:
    given = {"type": "rest", "uri": "http://c", **properties}
    return make_spec(*tables, catalog={"properties": given})


def get_reason(head: Head | Unseen) -> str:
    assert isinstance(head, Unseen)
    return head.reason


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[HeadLake]:
    made = HeadLake(tmp_path)
    yield made
    made.close()


def test_each_table_has_its_head_or_a_reason_of_its_own(lake: HeadLake) -> None:
    for name in ("shop.orders", "shop.empty", "shop.branched"):
        lake.create(name)
    head = lake.commit("shop.orders")
    lake.commit("shop.branched")
    lake.create_branch("audit", "shop.branched")
    audited = lake.commit("shop.branched", branch="audit")
    elsewhere = {"properties": {"type": "hadoop", "warehouse": "/w"}}
    secret = {**elsewhere, "propertiesFrom": [{"secretRef": {"name": "s"}}]}
    document = {
        "catalog": {"properties": lake.properties},
        "tables": [
            {"name": "shop.orders"},
            {"name": "shop.empty"},
            {"name": "shop.branched", "branch": "audit"},
            {"name": "shop.missing"},
            {"name": "`shop`.`orders`", "index": "again", "branch": "gone"},
            {"name": "shop.hadoop", "catalog": elsewhere},
            {"name": "shop.secret", "catalog": secret},
        ],
    }
    by_table = ReaderWorld().read(make_spec(**document))
    assert by_table["shop.orders"] == Head(head)
    assert by_table["shop.empty"] == Head(None)
    assert by_table["shop.branched"] == Head(audited)
    assert "no such table" in get_reason(by_table["shop.missing"])
    assert "no branch 'gone'" in get_reason(by_table["`shop`.`orders`"])
    assert "pyiceberg cannot read" in get_reason(by_table["shop.hadoop"])
    assert "--read-catalog-secrets" in get_reason(by_table["shop.secret"])


def test_a_catalog_that_goes_away_is_a_reason_and_one_that_comes_back_is_read(
    lake: HeadLake,
) -> None:
    lake.create()
    head = lake.commit()
    spec = make_spec(catalog={"properties": lake.properties})
    away = lake.database.with_suffix(".away")

    async def play() -> None:
        reader = ReaderWorld().make_reader()
        tables = heads.list_branches(spec)
        assert await reader.read("default", tables) == {"shop.orders": Head(head)}
        lake.database.rename(away)
        reader.close()  # a database that is open stays open, wherever it goes
        by_table = await reader.read("default", tables)
        assert "cannot be read" in get_reason(by_table["shop.orders"])
        away.rename(lake.database)
        assert await reader.read("default", tables) == {"shop.orders": Head(head)}
        reader.close()

    asyncio.run(play())


def test_pipelines_with_the_same_properties_share_one_connection() -> None:
    readers = FakeReaders(return_seven)
    world = ReaderWorld(readers)
    world.read(build_spec("a.b", "c.d"), build_spec("e.f"), build_spec("a.b"))
    assert len(readers.connections) == 1
    world.read(build_spec("a.b"), build_spec("a.b", token="t"))
    assert len(readers.connections) == 3


def test_namespaces_share_no_reader() -> None:
    readers = FakeReaders(return_seven)

    async def play() -> None:
        reader = ReaderWorld(readers).make_reader()
        for namespace in ("one", "two", "one"):
            await reader.read(namespace, heads.list_branches(build_spec("a.b")))
        reader.close()

    asyncio.run(play())
    assert len(readers.connections) == 2


def test_connections_are_bounded_and_the_one_not_used_for_longest_goes() -> None:
    readers = FakeReaders(return_seven)
    one, two, three = (build_spec("a.b", warehouse=name) for name in "xyz")
    ReaderWorld(readers, max_catalogs=2).read(one, two, one, three, one, two)
    used = [connection.properties["warehouse"] for connection in readers.connections]
    assert used == ["x", "y", "z", "y"]


@pytest.mark.parametrize(("most", "retained"), [(4, 3), (64, heads.CATALOGS_OF_NAMESPACE)])
def test_a_namespace_with_many_catalogs_pushes_out_its_own(most: int, retained: int) -> None:
    readers = FakeReaders(return_seven)

    async def play() -> None:
        reader = ReaderWorld(readers, max_catalogs=most).make_reader()
        await reader.read("small", heads.list_branches(build_spec("a.b", warehouse="small")))
        for name in "abcdefghij":
            await reader.read("large", heads.list_branches(build_spec("a.b", warehouse=name)))
        await reader.read("small", heads.list_branches(build_spec("a.b", warehouse="small")))
        assert len(readers.connections) - readers.closed == 1 + retained
        reader.close()

    asyncio.run(play())
    used = [connection.properties["warehouse"] for connection in readers.connections]
    assert used == ["small", *"abcdefghij"]


def test_a_connection_that_failed_is_made_anew() -> None:
    async def act(table: Sequence[str]) -> int | None:
        raise SourceUnavailable("broken")

    readers = FakeReaders(act)
    ReaderWorld(readers).read(build_spec("a.b"), build_spec("a.b"))
    assert (len(readers.connections), readers.closed) == (2, 2)


def test_a_catalog_that_hangs_holds_up_nobody_else() -> None:
    async def act(table: Sequence[str]) -> int | None:
        if table[0] == "hangs":
            await asyncio.Event().wait()
        return 7

    readers = FakeReaders(act)

    async def play() -> None:
        reader = ReaderWorld(readers, seconds=0.2).make_reader()
        hanging, healthy = build_spec("hangs.x", "fine.x"), build_spec("fine.y", warehouse="w")
        first, second = await asyncio.gather(
            reader.read("default", heads.list_branches(hanging)),
            reader.read("default", heads.list_branches(healthy)),
        )
        assert "within 0.2 s" in get_reason(first["hangs.x"])
        # For it, too, as long again would be spent.
        assert "earlier request" in get_reason(first["fine.x"])
        assert second == {"fine.y": Head("7")}
        assert (reader.overdue, readers.closed) == (1, 1)
        again = await reader.read("default", heads.list_branches(build_spec("fine.x")))
        assert again == {"fine.x": Head("7")}
        assert reader.overdue == 0
        reader.close()

    asyncio.run(play())


def test_refused_credentials_have_the_secret_read_anew() -> None:
    tokens: list[object] = []
    server = FakeServer()

    def put(token: str) -> None:
        data = {"token": base64.b64encode(token.encode()).decode()}
        path = kinds.SECRET.build_path("default", "lake")
        server.add(path, {"metadata": {"name": "lake"}, "data": data})

    async def act(table: Sequence[str]) -> int | None:
        tokens.append(readers.connections[-1].properties["token"])
        put("rotated")
        raise Unauthorized("the catalog refuses")

    readers = FakeReaders(act)

    given = {"properties": {"type": "rest", "uri": "http://c"}}
    spec = make_spec(catalog={**given, "propertiesFrom": [{"secretRef": {"name": "lake"}}]})

    async def play() -> None:
        secrets = CatalogSecrets(server.make_api(), allowed=True)
        reader = HeadReader(secrets, Metrics(), readers)
        for _ in range(2):
            by_table = await reader.read("default", heads.list_branches(spec))
            assert get_reason(by_table["shop.orders"]) == "the catalog refuses"

    put("first")
    asyncio.run(play())
    assert tokens == ["first", "rotated"]


def test_an_error_that_nobody_foresaw_is_counted() -> None:
    async def act(table: Sequence[str]) -> int | None:
        raise Bug("internal error (UnknownError)")

    world = ReaderWorld(FakeReaders(act))
    by_table = world.read(build_spec("a.b"))
    assert get_reason(by_table["a.b"]) == "internal error (UnknownError)"
    assert world.metrics.registry.get_sample_value("icdc_unexpected_errors_total") == 1
