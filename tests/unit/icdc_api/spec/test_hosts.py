"""Hosts of OpenSearch: names and addresses that can exist, of both families."""

import pytest
from pydantic import ValidationError

from icdc_api.spec.sink import OpenSearch

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "host",
    [
        "http://[::1]:9200",
        "https://[fd00::1]",
        "http://[2001:db8::7]:9200/search",
        "http://[::ffff:10.0.0.1]:9200",
        "http://10.0.0.1:65535",
        "https://search:1",
    ],
)
def test_an_address_that_can_exist_is_a_host(host: str) -> None:
    assert OpenSearch.model_validate({"hosts": [host]}).hosts == (host,)


@pytest.mark.parametrize(
    "host",
    [
        "https://search:65536",
        "https://search:92000",
        "http://search:0",
        "http://[1]:9200",
        "http://[10.0.0.1]:9200",
        "http://[fd00::1::2]:9200",
        "http://fd00::1:9200",
        "http://[fe80::1%eth0]:9200",
    ],
)
def test_one_that_cannot_is_refused_with_what_is_allowed(host: str) -> None:
    with pytest.raises(ValidationError, match=r"port up to 65535 and an address of IPv6 in brack"):
        OpenSearch.model_validate({"hosts": [host]})
