"""The process that reads catalogs, as the operator sees it: children that end, alone."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from icdc_api.errors import SourceUnavailable, TableNotFound
from icdc_api.spec.pipeline import PipelineSpec
from icdc_operator.cluster.heads.catalog_properties import OutOfSight, translate
from icdc_operator.cluster.heads.catalog_secrets import CatalogSecrets
from icdc_operator.cluster.heads.connections import (
    OfAnotherContainer,
    OfOwnProcess,
    Readers,
)
from icdc_operator.cluster.heads.reader.limits import confinement
from icdc_operator.cluster.heads.settings import ReaderSettings
from icdc_operator.cluster.heads.table_heads import TABLE_SECONDS, Head, HeadReader, list_branches
from icdc_operator.cluster.metrics import Metrics
from icdc_testing.lake.catalogs import rest_catalog
from icdc_testing.lake.catalogs.head_lake import HeadLake
from icdc_testing.lake.catalogs.readers import ON_LOOPBACK
from icdc_testing.operator.adapter.fakes.api import FakeServer
from icdc_testing.operator.deciding.pipelines import make_spec
from icdc_testing.waiting.async_wait import wait_until

from . import hostile_server

pytestmark = pytest.mark.unit

ORDERS = ("shop", "orders")
METADATA = {"format-version": 2, "current-snapshot-id": 7}
LONG = 60.0


@pytest.fixture
def healthy() -> Iterator[dict[str, str]]:
    with rest_catalog.serve() as catalog:
        catalog.put("shop.orders", dict(METADATA))
        yield catalog.properties


@pytest.fixture(scope="module")
def readers() -> Iterator[OfOwnProcess]:
    """Share one process, whose start takes longest."""
    made = OfOwnProcess(ON_LOOPBACK)
    made.start()
    yield made
    made.close()


async def read_head(
    readers: Readers, properties: dict[str, str], seconds: float = LONG
) -> int | None:
    """Return the head by a connection of its own."""
    connection = await readers.connect(translate("lake", properties))
    try:
        return await connection.read_head(ORDERS, "main", seconds)
    finally:
        connection.close()


def list_children(pid: int) -> list[int]:
    try:
        pids = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(pid) for pid in pids.split()]


def read_peak_bytes(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    return 0


def get_pid(readers: OfOwnProcess) -> int:
    assert readers._process is not None
    return readers._process.pid


def make_spec_of_one(properties: dict[str, str]) -> PipelineSpec:
    return make_spec("shop.orders", catalog={"properties": properties})


def make_spec_of_many(uri: str) -> PipelineSpec:
    tables = [
        {
            "name": f"shop.t{number}",
            "catalog": {"properties": {"type": "rest", "uri": uri, "warehouse": str(number)}},
        }
        for number in range(40)
    ]
    return make_spec(catalog={"properties": {"type": "rest", "uri": uri}}, tables=tables)


@pytest.mark.parametrize("kind", ["endless", "brackets", "deep", "branches", "bomb"])
def test_an_answer_without_measure_ends_as_unreadable_in_bounded_memory(
    kind: str, healthy: dict[str, str], readers: OfOwnProcess
) -> None:
    async def play(uri: str) -> None:
        other = await readers.connect(translate("lake", healthy))
        assert await other.read_head(ORDERS, "main", LONG) == 7
        shared, most = read_peak_bytes(get_pid(readers)), 0
        asked = asyncio.create_task(read_head(readers, {"type": "rest", "uri": uri}))
        while not asked.done():
            most = max([most, *map(read_peak_bytes, list_children(get_pid(readers)))])
            await asyncio.sleep(0.01)
        with pytest.raises(SourceUnavailable):
            await asked
        assert most < shared + confinement.MEMORY_BYTES + 2**25
        # The readers of others did not go with it.
        assert await other.read_head(ORDERS, "main", LONG) == 7
        other.close()

    with hostile_server.run_server(kind) as uri:
        asyncio.run(play(uri))


@pytest.mark.parametrize("kind", ["dripping", "silent"])
def test_a_reader_whose_catalog_takes_its_time_is_ended_in_time(
    kind: str, readers: OfOwnProcess
) -> None:
    async def play(uri: str) -> None:
        connection = await readers.connect(translate("lake", {"type": "rest", "uri": uri}))
        # Nobody closes the connection here: the reader ends by itself.
        with pytest.raises(SourceUnavailable, match="ended before its answer"):
            await connection.read_head(ORDERS, "main", 0.1)
        connection.close()
        await wait_until(lambda: not list_children(get_pid(readers)), "no child is left")

    with hostile_server.run_server(kind) as uri:
        asyncio.run(play(uri))


def test_a_reader_that_nobody_waits_for_any_more_is_ended_at_once(readers: OfOwnProcess) -> None:
    async def play(uri: str) -> None:
        asked = asyncio.create_task(read_head(readers, {"type": "rest", "uri": uri}))
        await wait_until(lambda: bool(list_children(get_pid(readers))), "it reads", seconds=LONG)
        asked.cancel()
        await wait_until(lambda: not list_children(get_pid(readers)), "no child is left")

    with hostile_server.run_server("silent") as uri:
        asyncio.run(play(uri))


def test_catalogs_of_one_namespace_that_hang_do_not_blind_another(
    healthy: dict[str, str],
) -> None:
    async def play(uri: str) -> None:
        secrets = CatalogSecrets(FakeServer().make_api(), allowed=False)
        readers = OfOwnProcess(ON_LOOPBACK)
        reader = HeadReader(secrets, Metrics(), readers)
        assert await reader.read("healthy", list_branches(make_spec_of_one(healthy))) == {
            "shop.orders": Head("7")
        }
        hostile = asyncio.create_task(reader.read("hostile", list_branches(make_spec_of_many(uri))))
        await wait_until(
            lambda: len(list_children(get_pid(readers))) > 2, "two of its catalogs are asked"
        )
        # Its pace is kept, although each of the other's forty tables takes its whole time.
        async with asyncio.timeout(TABLE_SECONDS - 1):
            for _ in range(20):
                answer = await reader.read("healthy", list_branches(make_spec_of_one(healthy)))
                assert answer == {"shop.orders": Head("7")}
        assert not hostile.done()
        hostile.cancel()
        reader.close()

    with hostile_server.run_server("silent") as uri:
        asyncio.run(play(uri))


@contextmanager
def start_process(path: Path, *flags: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Start the process of another container."""
    module = "icdc_operator.cluster.heads.reader.process"
    command = [sys.executable, "-m", module, "--socket", str(path), *flags]
    with subprocess.Popen(command, cwd=path.parent) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_process_of_another_container_may_come_late_and_come_again(
    tmp_path: Path, healthy: dict[str, str]
) -> None:
    path = tmp_path / "heads.sock"

    async def play() -> None:
        readers = OfAnotherContainer(path)
        waiting = asyncio.create_task(read_head(readers, healthy))
        await asyncio.sleep(0)
        for _ in range(2):
            with start_process(path, *ON_LOOPBACK.flags) as process:
                assert await waiting == 7
                assert path.stat().st_mode & 0o777 == 0o600
                left = await readers.connect(translate("lake", healthy))
                assert await left.read_head(ORDERS, "main", LONG) == 7
                process.kill()
                process.wait()
                with pytest.raises(SourceUnavailable):
                    await left.read_head(ORDERS, "main", LONG)
                waiting = asyncio.create_task(read_head(readers, healthy))
        waiting.cancel()

    asyncio.run(play())


def test_a_process_ends_in_order_when_it_is_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "heads.sock"

    async def play() -> None:
        with start_process(path) as process:
            await wait_until(path.exists, "it listens", seconds=LONG)
            process.send_signal(signal.SIGTERM)
            assert process.wait(LONG) == 0

    asyncio.run(play())


def test_readers_end_with_the_operator_however_that_ends(healthy: dict[str, str]) -> None:
    async def play() -> None:
        readers = OfOwnProcess(ON_LOOPBACK)
        await read_head(readers, healthy)
        open_one = await readers.connect(translate("lake", healthy))
        assert await open_one.read_head(ORDERS, "main", LONG) == 7
        pid = get_pid(readers)
        (child,) = list_children(pid)
        assert readers._control is not None
        readers._control.close()  # as the kernel does for a process that is killed
        assert readers._process is not None
        readers._process.wait(LONG)
        await wait_until(lambda: not Path(f"/proc/{child}").exists(), "its child has ended")
        open_one.close()

    asyncio.run(play())


def test_a_process_that_ended_is_started_again(healthy: dict[str, str]) -> None:
    async def play() -> None:
        readers = OfOwnProcess(ON_LOOPBACK)
        assert await read_head(readers, healthy) == 7
        os.kill(get_pid(readers), signal.SIGKILL)
        assert readers._process is not None
        readers._process.wait(LONG)
        assert await read_head(readers, healthy) == 7
        readers.close()

    asyncio.run(play())


def test_failures_keep_their_class_and_their_words(
    healthy: dict[str, str], readers: OfOwnProcess
) -> None:
    async def play() -> None:
        connection = await readers.connect(translate("lake", healthy))
        with pytest.raises(TableNotFound, match=r"shop\.missing"):
            await connection.read_head(("shop", "missing"), "main", LONG)
        # The same reader goes on.
        assert await connection.read_head(ORDERS, "main", LONG) == 7
        connection.close()
        with pytest.raises(OutOfSight, match=r"heads\.useCloudRole"):
            await read_head(readers, {"type": "glue", "client.region": "r"})

    asyncio.run(play())


def test_by_default_no_catalog_is_on_this_host(tmp_path: Path, healthy: dict[str, str]) -> None:
    lake = HeadLake(tmp_path)
    by_name = {**healthy, "uri": healthy["uri"].replace("127.0.0.1", "localhost")}
    refused: list[tuple[dict[str, str], str]] = [
        (healthy, "heads.allowHosts"),
        (by_name, "heads.allowHosts"),
        ({"type": "hive", "uri": "thrift://127.0.0.1:1"}, "heads.allowHosts"),
        ({"type": "jdbc", "uri": "jdbc:postgresql://127.0.0.1/x"}, "heads.allowHosts"),
        ({"type": "rest", "uri": "http://169.254.169.254/latest"}, "heads.allowHosts"),
        (lake.properties, "heads.localFiles"),
    ]

    async def play() -> None:
        readers = OfOwnProcess(ReaderSettings())
        for properties, value in refused:
            with pytest.raises(OutOfSight, match=value):
                await read_head(readers, properties)
        readers.close()

    asyncio.run(play())
    lake.close()
