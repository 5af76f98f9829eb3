"""OpenSearch at an address of IPv6, as it stands in `hosts` of a cluster of IPv6 alone."""

import json
from pathlib import Path

import pytest

from icdc_spark.opensearch.client.connection import Connection, open_client
from icdc_spark.opensearch.client.http import BulkEndpoint
from icdc_testing.network.echo_server import echo
from icdc_testing.network.tls import Authority

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_literal_is_asked_and_its_certificate_checked(scheme: str, tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "authority")
    issued = authority.issue("server", names=["IP:::1"])
    tls = issued.make_server_context() if scheme == "https" else None
    with echo(tls, "::1") as port:
        trusted = authority.ca.read_text(encoding="utf-8")
        connection = Connection((f"{scheme}://[::1]:{port}",), ca_pem=trusted, timeout=30.0)
        client = open_client(connection)
        assert client.info() == {"path": "/", "host": f"[::1]:{port}"}
        client.close()
        endpoint = BulkEndpoint(connection, opaque_id="x", pool=1)
        answer = json.loads(endpoint.send("orders", b"").text)
        endpoint.close()
        assert answer["path"].startswith("/orders/_bulk?")
