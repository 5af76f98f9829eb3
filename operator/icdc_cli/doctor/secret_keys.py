"""The keys that a Secret must have, by the field that names it; the same on a host. Pure."""

from icdc_api import authorities
from icdc_api.spec.secrets import has_credentials


def describe_missing_keys(where: str, keys: frozenset[str]) -> str:
    """Return the keys that a Secret lacks for the field `where`; empty if it has what is needed.

    spec.sink.opensearch.credentialsFrom   username          key password
    spec.sink.opensearch.credentialsFrom   awsRegion         nothing is missing
    spec.catalog.propertiesFrom[0]         nothing           key at all
    """
    if where.endswith(".credentialsFrom"):
        # Either is enough: a user with a password, or a region, with which requests are signed.
        if has_credentials(keys):
            return ""
        missing = [key for key in ("username", "password") if key not in keys]
        return f"key {' or '.join(missing)}" + ("" if keys else ", nor awsRegion")
    if where.endswith(".caFrom"):
        return "" if authorities.KEY in keys else f"key {authorities.KEY}"
    return "" if keys else "key at all"
