"""Certificates that are not accepted: the message says why, and who has to do something."""

from dataclasses import replace
from pathlib import Path

import pytest

from icdc_api.errors import Unauthorized
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.stores.state_store import StateStore
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.tls import Authority
from icdc_testing.target import sink_cases as sink

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("index")]

HERE = ("IP:127.0.0.1",)
CASES = {
    "expired": "has expired: an administrator of OpenSearch has to renew it.",
    "another name": "is not for the address in sink.opensearch.hosts (IP address mismatch, "
    "certificate is not valid for '127.0.0.1').",
    "another authority": "is not trusted (unable to get local issuer certificate): check "
    "sink.opensearch.tls.caFrom.",
}


@pytest.mark.parametrize("case", CASES)
def test_a_certificate_that_is_not_accepted_is_told_apart(
    clean_indices: str, tmp_path: Path, case: str
) -> None:
    ours, other = (Authority.make(tmp_path / name) for name in ("ours", "other"))
    served = {
        "expired": ours.issue("old", names=HERE, days=-1),
        "another name": ours.issue("else", names=["DNS:search.example"]),
        "another authority": other.issue("theirs", names=HERE),
    }[case]
    with FaultProxy(clean_indices, tls=served.make_server_context()) as proxy:
        connection = Connection(hosts=(proxy.url,), ca_pem=ours.ca.read_text(encoding="utf-8"))
        message = f"The TLS certificate of OpenSearch at {proxy.url} {CASES[case]}"
        store = StateStore(connection)
        with pytest.raises(Unauthorized) as refused:
            store.load("orders")
        store.close()
        assert refused.value.message == message
        # A task ends at once, and does not try for minutes.
        target = replace(sink.make_target(proxy.url), connection=connection)
        result = sink.run_task(sink.make_batches([sink.upsert("k1", {"v": 1})]), target)
        assert (result.error, result.retries) == (("Unauthorized", message), 0)
