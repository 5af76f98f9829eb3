"""Choose what the reader of heads takes over from a catalog's answers. Pure; opens nothing.

A catalog answers `GET /v1/config` with properties. Java's client lets them choose classes, files
and servers; a pipeline's author may run that catalog, so here they choose none of these.
"""

from typing import Any
from urllib.parse import urlsplit

from icdc_operator.cluster.heads.catalog_properties import OutOfSight

_KNOWN = ("prefix", "namespace-separator", "uri")
"""Parts of the paths of requests. All else (`auth`, `ssl`, `header.*`, `token`, …) is dropped."""

_PORTS = {"http": 80, "https": 443}


def filtered(answer: object, uri: str) -> dict[str, Any]:
    """Return the part of a configuration that is safe to use, of the catalog at `uri`.

    Raises ValueError where it has another form, and OutOfSight where it names another server.
    """
    if not isinstance(answer, dict):
        raise ValueError("the catalog answers with a configuration that is no map")
    overrides = _known(answer.get("overrides"))
    if "uri" in overrides and _origin(overrides["uri"]) != _origin(uri):
        raise OutOfSight("the catalog names another server for itself, which only a run follows")
    endpoints = {"endpoints": answer["endpoints"]} if answer.get("endpoints") else {}
    return {"defaults": _known(answer.get("defaults")), "overrides": overrides, **endpoints}


def _known(answered: object) -> dict[str, str]:
    if answered is None:
        return {}
    if not isinstance(answered, dict):
        raise ValueError("the catalog answers with properties that are no map")
    found = {key: answered[key] for key in _KNOWN if key in answered}
    for key, value in found.items():
        if not isinstance(value, str):
            raise ValueError(f"the catalog answers with a {key} that is no text")
    return found


def may_lead_to(source: str, target: str) -> bool:
    """Tell whether a redirect from `source` stays at its server; https: may take over from http:.

    Raises ValueError for an address that is none.
    """
    before, after = _origin(source), _origin(target)
    upgraded = before[:2] == ("http", after[1]) and after[0] == "https"
    return before == after or upgraded


def _origin(uri: str) -> tuple[str, str | None, int | None]:
    address = urlsplit(uri)
    return address.scheme, address.hostname, address.port or _PORTS.get(address.scheme)
