"""Keep the few settings of a catalog's answer that are safe to use. Pure; opens nothing.

Part 3 of `reader`: read. A REST catalog answers `GET /v1/config` with properties. Java's client
lets them choose classes, files and servers. The author of a pipeline may run that catalog, so here
they choose none of these.

    answered                              retained
    prefix: lakes/one                     yes: a part of the paths of requests
    uri: https://other/                   OutOfSight: another server, which only a run follows
    auth, ssl, token, header.X, s3.…      dropped
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from icdc_operator.cluster.heads.catalog_properties import OutOfSight

_KNOWN = ("prefix", "namespace-separator", "uri")
"""Parts of the paths of requests. All else (`auth`, `ssl`, `header.*`, `token`, …) is dropped."""

_PORTS = {"http": 80, "https": 443}


def keep_safe_properties(answered: Mapping[str, Any], uri: str) -> dict[str, str]:
    """Return the answered properties that are safe to use, of the catalog at `uri`.

    Raises ValueError where one is no text, and OutOfSight where they name another server.
    """
    safe = {key: answered[key] for key in _KNOWN if key in answered}
    for key, value in safe.items():
        if not isinstance(value, str):
            raise ValueError(f"the catalog answers with a {key} that is not text")
    if "uri" in safe and _parse_origin(safe["uri"]) != _parse_origin(uri):
        raise OutOfSight("the catalog's answer names another server, to which only runs connect")
    return safe


def may_lead_to(source: str, target: str) -> bool:
    """Return whether a redirect from `source` stays at its server. https: may replace http:.

    Raises ValueError for text that is no address.
    """
    before, after = _parse_origin(source), _parse_origin(target)
    upgraded = before[:2] == ("http", after[1]) and after[0] == "https"
    return before == after or upgraded


def _parse_origin(uri: str) -> tuple[str, str | None, int | None]:
    # Libraries differ in where the host ends: http://a\\@b is host a to some, host b to others.
    if "\\" in uri:
        raise ValueError("an address of the catalog contains a backslash")
    address = urlsplit(uri)
    return address.scheme, address.hostname, address.port or _PORTS.get(address.scheme)
