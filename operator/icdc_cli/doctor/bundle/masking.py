"""Take out of a bundle what may be a secret, before it leaves the process. Pure.

An object is masked by its fields, and a text by values: what was masked in any object, and all
values of the Secrets that pipelines name, are removed from every file, so that a password that an
error repeats in a log is removed too. Rather too much than too little: who reads a bundle can ask.

    catalog.properties {s3.secret-access-key: hunter2}    {s3.secret-access-key: <redacted>}
    log: "403 for hunter2"                                "403 for <redacted>"
    uri: jdbc:postgresql://u:p@db/x?password=q            jdbc:postgresql://<redacted>@db/x?<redacted>
    env: [{name: DEBUG, value: "1"}]                      [{name: DEBUG, value: <redacted>}]
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from icdc_api.redaction import SECRET_NAMES

MASK = "<redacted>"

SHOWN_PROPERTIES = frozenset(
    {
        *("type", "catalog-impl", "io-impl", "uri", "warehouse", "client.region", "s3.region"),
        *("s3.endpoint", "s3.path-style-access", "glue.id", "table-name", "jdbc.schema-version"),
        *("rest.auth.type", "rest.sigv4-enabled", "rest.signing-region", "prefix"),
    }
)
"""Properties of catalogs that are no secrets; the names of all others are shown alone."""

_SHOWN_KEYS = frozenset({"username", "awsRegion", "awsService", "ca.crt"}) | SHOWN_PROPERTIES
"""Keys of Secrets whose values, such as `rest`, stand in texts for other reasons."""
_LEAST = 4
"""Characters of a value that is searched for in texts: a shorter one is part of other words."""

_SECRET_NAME = re.compile(SECRET_NAMES)
_NAME_OF_SECRET = re.compile(r"(?i)(name|ref|refs|from|secrets|policy)$")
"""Fields such as secretName and imagePullSecrets: they name a Secret and hold none."""
_OPAQUE = frozenset({"args", "command"})
"""Of containers in templates; a flag may be followed by its password."""
_OF_US = "icebergcdc.dev/"

_PATTERNS = (
    (re.compile(r"(?<=://)[^/\s@\"']+@"), f"{MASK}@"),
    # Of addresses, and of the text `password: …` or `"token": "…"` in logs.
    (
        re.compile(
            r"(?i)((?:secret|passw(?:or)?d|token|authorization|credential|signature"
            r"|access[-_.]?key|account[-_.]?key|api[-_.]?key)[\w.-]*[\"']?[ \t]*[:=][ \t]*[\"']?)"
            r"(?:(?:bearer|basic)\s+)?(?!<redacted>)[^\s\"',;&}\\]+"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w+/=.~-]{8,}"), rf"\1 {MASK}"),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), MASK),
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.S),
        MASK,
    ),
)


class Masker:
    """Collects values that may be secrets, and removes them."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def learn_secret(self, values: Mapping[str, bytes]) -> None:
        """Remember the values of a Secret, by key."""
        for key, value in values.items():
            if key not in _SHOWN_KEYS:
                self._learn(value.decode(errors="replace").strip())

    def mask_object(self, value: Any) -> Any:
        """Return an object of the API without what may be a secret; remember what that was."""
        if isinstance(value, dict):
            return {
                key: self._mask_field(key, inner)
                for key, inner in value.items()
                # It repeats the names of fields, and holds no value.
                if key != "managedFields"
            }
        if isinstance(value, list):
            return [self.mask_object(inner) for inner in value]
        return value

    def mask_texts(self, value: Any) -> Any:
        """Return an object without what `mask_text` finds; once all others were masked."""
        if isinstance(value, dict):
            return {key: self.mask_texts(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.mask_texts(inner) for inner in value]
        return self.mask_text(value) if isinstance(value, str) else value

    def mask_text(self, text: str) -> str:
        """Return the text without any value that was remembered, or that looks like a secret."""
        # The longest first: one may be a part of another, the rest of which would stay.
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, MASK)
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        return text

    def _mask_field(self, key: str, value: Any) -> Any:
        if key == "annotations" and isinstance(value, dict):
            # Among them the whole resource as applied, with all that is masked elsewhere.
            shown = {name: text for name, text in value.items() if name.startswith(_OF_US)}
            self._hide([text for name, text in value.items() if name not in shown])
            return shown
        if key == "catalog" and isinstance(value, dict):
            properties = value.get("properties") or {}
            masked = {name: self._mask_property(name, text) for name, text in properties.items()}
            return {**self.mask_object(value), "properties": masked}
        if key == "env" and isinstance(value, list):
            return [self._mask_variable(entry) for entry in value]
        if key in _OPAQUE or (
            _SECRET_NAME.search(key)
            and not _NAME_OF_SECRET.search(key)
            # An object is masked by its own fields, and a switch is no secret.
            and not isinstance(value, dict | bool)
        ):
            return self._hide(value)
        return self.mask_object(value)

    def _mask_property(self, name: str, value: Any) -> Any:
        if name not in SHOWN_PROPERTIES or not isinstance(value, str):
            return self._hide(value)
        address, mark, query = value.partition("?")
        if query:
            # Drivers of databases separate options by & or by a semicolon.
            self._hide(list(re.split(r"[&=;]", query)))
        login = re.search(r"(?<=://)([^/\s@]+)@", address)
        if login is not None:
            self._hide(login[1].split(":", 1))
            address = address.replace(f"{login[1]}@", f"{MASK}@")
        return f"{address}{mark}{MASK}" if query else address

    def _mask_variable(self, entry: Any) -> Any:
        if isinstance(entry, dict) and "value" in entry:
            return {**entry, "value": self._hide(entry["value"])}
        return self.mask_object(entry)

    def _hide(self, value: Any) -> str:
        """Remember all texts in `value`; return what stands in its place."""
        if isinstance(value, str):
            self._learn(value.strip())
        elif isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                self._hide(inner)
        return MASK

    def _learn(self, value: str) -> None:
        # A log may quote one line of a key or certificate.
        lines: Iterable[str] = {value, *value.splitlines()}
        for line in lines:
            # A flag such as `true` would be taken out of every line of every file.
            if len(line) >= _LEAST and line not in ("true", "false"):
                self._values |= set(_list_forms(line))


def _list_forms(value: str) -> Iterator[str]:
    """Yield the forms in which texts hold a value: as it is, in JSON, in a URL, in base64."""
    yield value
    yield json.dumps(value)[1:-1]
    yield quote(value, safe="")
    yield base64.b64encode(value.encode()).decode()
