"""A value that an index refuses, and how an administrator mends the index."""

from icdc_testing.target import oracle

LONG = "secret" * 6_000
"""More bytes than a term may have, unless the mapping says what to ignore."""
UNLIMITED = {"type": "keyword", "ignore_above": 100_000}
"""The mapping of a field that takes no such value."""


def mend(url: str, index: str, field: str = "name") -> None:
    """Let the field of a physical index ignore long values, so that their documents are taken."""
    mapping = {"properties": {field: UNLIMITED | {"ignore_above": 100}}}
    oracle.request(f"{url}/{index}/_mapping", "PUT", mapping)
