"""The catalog of a Data Prepper file: properties that may be shown, and a Secret for the others.

What is printed ends in files and repositories, so a property is hidden when its name or its value
may be that of a credential. Of those that are hidden only the name is repeated.

    type: rest                          properties
    uri: https://c.example.org          properties
    uri: https://me:pw@c.example.org    propertiesFrom: the value has a user
    credential: id:secret               propertiesFrom: by its name
    a: ${{aws_secrets:lake:a}}          propertiesFrom: Data Prepper alone resolves it
"""

import re
from typing import Any

from icdc_api.redaction import SECRET_NAMES
from icdc_cli.commands.data_prepper.sections import Section

# Broader than for redaction: a harmless property in a Secret costs one more step, no more. Headers
# of HTTP and what a provider of credentials is told have names that anybody may choose.
_SECRET_NAME = re.compile(
    rf"{SECRET_NAMES}|pass|pwd|(^|[._-])(key|sas|jwt|pat|pem)([._-]|$)|signature|^header[.]"
    r"|[.]auth[.]|(^|[._-])user(name)?$"
)
_PLAIN_NAME = re.compile(
    r"(?i)([a-z0-9]+[.])?credentials-provider|token-(refresh|exchange)-enabled"
    r"|token-expires-in-ms|header[.]x-iceberg-access-delegation"
)
"""Names that the other expression finds, and that only say how a credential is got."""
_SECRET_VALUE = re.compile(
    r"[$][{][{]"  # of AWS Secrets Manager
    r"|^jdbc:[^?#]*@"  # of Oracle's: jdbc:oracle:thin:user/password@host
    r"|(?<!abfs:)(?<!abfss:)//[^/?#\s]*@"  # a user; abfss://container@account has none
    r"|\bA[KS]IA[A-Z0-9]{16}\b|-----BEGIN |\b(?i:bearer|basic)\s"
    r"|(?i:(pass|pwd?|secret|token|credential|signature|user|key|sig|auth)[\w.-]*\s*=)"
)


def convert_catalog(section: Section, given: Any, secret: str) -> dict[str, Any]:
    """Return `catalog` of a spec; what is hidden is to be had from the Secret `secret`."""
    if not isinstance(given, dict):
        raise section.refuse_kind("catalog", given, "a mapping of properties")
    plain: dict[str, str] = {}
    hidden: list[str] = []
    for name, value in given.items():
        if value is None:
            continue
        if not isinstance(value, str):
            raise section.refuse_kind(f"catalog.{name}", value, "a text")
        if _may_be_secret(name, value):
            hidden.append(name)
        else:
            plain[name] = value
    catalog: dict[str, Any] = {"properties": plain}
    if hidden:
        catalog["propertiesFrom"] = [{"secretRef": {"name": secret}}]
        literals = " ".join(f"--from-literal={name}=…" for name in hidden)
        section.note("catalog", f"kubectl create secret generic {secret} {literals}")
    return catalog


def _may_be_secret(name: str, value: str) -> bool:
    if _SECRET_VALUE.search(value):
        return True
    return _SECRET_NAME.search(name) is not None and _PLAIN_NAME.fullmatch(name) is None
