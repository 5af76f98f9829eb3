"""The API server's own addresses, which no reader of catalogs connects to."""

import asyncio

import pytest

from icdc_operator.cluster.heads.api_addresses import (
    LEARN_SECONDS,
    RETRY_SECONDS,
    ApiServerAddresses,
)
from icdc_operator.cluster.heads.catalog_properties import OutOfSight, translate
from icdc_operator.cluster.heads.connections import OfOwnProcess
from icdc_operator.cluster.heads.reader.limits.addresses import Addresses, AddressGuard
from icdc_operator.cluster.heads.settings import ReaderSettings
from icdc_operator.cluster.kube.api_errors import Unavailable

pytestmark = pytest.mark.unit


class Instances:
    """An API server whose instances answer in turn; the last answer is an error."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)

    async def list_server_hosts(self) -> list[str]:
        if not self.answers:
            raise Unavailable("nobody answers")
        return self.answers.pop(0)


class Malformed(Instances):
    """An API server whose first answer holds no address."""

    failed = False

    async def list_server_hosts(self) -> list[str]:
        if not self.failed:
            self.failed = True
            raise ValueError("'[bad' does not appear to be an IPv4 or IPv6 address")
        return await super().list_server_hosts()


def test_addresses_of_all_instances_that_answered_are_refused() -> None:
    now = 0.0
    api = Instances(["10.0.0.5", "no.such.name.invalid"], ["fd12::5"])
    addresses = ApiServerAddresses(api, clock=lambda: now)
    assert asyncio.run(addresses.learn()) == {"10.0.0.5"}
    assert asyncio.run(addresses.learn()) == {"10.0.0.5"}
    now = LEARN_SECONDS
    assert asyncio.run(addresses.learn()) == {"10.0.0.5", "fd12::5"}
    now = 2 * LEARN_SECONDS
    learned = asyncio.run(addresses.learn())
    assert learned == {"10.0.0.5", "fd12::5"}
    rules = Addresses(ReaderSettings(), ["10.96.0.1"])
    AddressGuard(rules).refuse(learned)
    for address in ("10.96.0.1", "10.0.0.5", "::ffff:10.0.0.5", "fd12::5"):
        assert not rules.allows("catalog.example.com", address)
    assert rules.allows("catalog.example.com", "10.0.0.6")


def test_connections_of_one_moment_wait_for_the_same_answer() -> None:
    async def learn() -> list[object]:
        addresses = ApiServerAddresses(Instances(["10.0.0.5"]))
        return list(await asyncio.gather(*(addresses.learn() for _ in range(3))))

    assert asyncio.run(learn()) == [{"10.0.0.5"}] * 3


def test_an_answer_that_is_none_is_asked_for_again_soon() -> None:
    now = 0.0
    addresses = ApiServerAddresses(Malformed(["10.0.0.5"]), clock=lambda: now)
    assert asyncio.run(addresses.learn()) == set()
    now = RETRY_SECONDS
    assert asyncio.run(addresses.learn()) == {"10.0.0.5"}


def test_a_child_is_kept_from_the_addresses_of_the_api_server_that_the_operator_learned() -> None:
    async def learn() -> list[str]:
        return ["192.0.2.1"]

    async def ask() -> None:
        catalog = translate("lake", {"type": "rest", "uri": "http://192.0.2.1:6443"})
        connection = await readers.connect(catalog)
        try:
            await connection.read_head(("shop", "orders"), "main", 20.0)
        finally:
            connection.close()

    readers = OfOwnProcess(ReaderSettings(), learn)
    try:
        with pytest.raises(OutOfSight, match=r"heads\.allowHosts"):
            asyncio.run(ask())
    finally:
        readers.close()
