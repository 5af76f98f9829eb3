"""The properties of a catalog with those that come from Secrets, where the operator may read them.

The only module of the operator that reads credentials. Values are kept for some minutes, for no
request per look, and are put into no message.
"""

import base64
import binascii
import time
from collections.abc import Callable
from typing import Protocol

from icdc_api.catalog import Catalog
from icdc_api.errors import Unauthorized
from icdc_operator.cluster.heads.catalog_properties import OutOfSight
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.kinds import Kind, Resource

KEPT_SECONDS = 300.0
"""How long a Secret is not read again; a refusal of the catalog ends it earlier."""

FLAG = "--read-catalog-secrets"


class SecretApi(Protocol):
    """The API server, as far as Secrets are concerned. Raises the errors of `cluster.errors`."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        """The object; None when it is not there."""
        ...


class CatalogSecrets:
    """Reads the Secrets that pipelines name. `clock` gives seconds that never go back."""

    def __init__(
        self,
        api: SecretApi,
        *,
        allowed: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._allowed = allowed
        self._clock = clock
        self._kept: dict[tuple[str, str], tuple[float, dict[str, str]]] = {}

    async def properties(self, namespace: str, catalog: Catalog) -> dict[str, str]:
        """The properties to hand to Iceberg: those of the spec, then each Secret's over them.

        Raises OutOfSight where the operator may not read Secrets, and Unauthorized or an error of
        the API server where one cannot be read.
        """
        result = dict(catalog.properties)
        if catalog.properties_from and not self._allowed:
            raise OutOfSight(
                "its catalog has propertiesFrom, and the operator was not started with "
                f"{FLAG} (chart: readCatalogSecrets)"
            )
        for source in catalog.properties_from:
            result.update(await self._secret(namespace, source.secret_ref.name))
        return result

    def forget(self, namespace: str, catalog: Catalog) -> None:
        """The catalog refused: its Secrets may have been rotated."""
        for source in catalog.properties_from:
            self._kept.pop((namespace, source.secret_ref.name), None)

    async def _secret(self, namespace: str, name: str) -> dict[str, str]:
        now = self._clock()
        self._kept = {key: kept for key, kept in self._kept.items() if kept[0] > now}
        kept = self._kept.get((namespace, name))
        if kept is not None:
            return kept[1]
        found = await self._api.get(kinds.SECRET, namespace, name)
        if found is None:
            raise Unauthorized(f"there is no Secret {name!r} in the namespace of the pipeline")
        values = {
            key: _value(encoded, name, key) for key, encoded in (found.get("data") or {}).items()
        }
        self._kept[(namespace, name)] = (now + KEPT_SECONDS, values)
        return values


def _value(encoded: str, name: str, key: str) -> str:
    """As the mounted file is read: without a final newline."""
    try:
        return base64.b64decode(encoded, validate=True).decode().removesuffix("\n")
    except (binascii.Error, UnicodeDecodeError):
        raise Unauthorized(f"the Secret {name!r} holds no UTF-8 text at {key!r}") from None
