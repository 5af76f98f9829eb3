"""Certificates of authorities that a user trusts, as text (PEM).

Without any other module: the start of an executor's container needs it before all else.
"""

import re
import ssl

KEY = "ca.crt"
"""The key of a Secret that holds them, as cert-manager and Kubernetes name it."""

FILES_VARIABLE = "ICDC_CATALOG_AUTHORITIES"
"""Names the files with certificates that an executor trusts, with colons in between."""

PROPERTY = "icdc.authorities"
"""The catalog property that holds them, so that they reach all that opens the catalog or its files.
Iceberg hands it on, and does not know it."""

_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")


def list_certificates(text: str) -> list[str]:
    """Return each certificate of the text as PEM of its own; ValueError where one, or all, is none.

    What stands between them, such as the names that bundles have there, is left out.
    """
    blocks = _BLOCK.findall(text)
    # The library takes no character beyond ASCII, and so not the whole text.
    add_to(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "\n".join(blocks))
    return blocks


def add_to(context: ssl.SSLContext, certificates: str) -> None:
    """Have a context trust further certificates; ValueError if they are not in PEM."""
    try:
        context.load_verify_locations(cadata=certificates)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError("not a certificate in PEM") from error
