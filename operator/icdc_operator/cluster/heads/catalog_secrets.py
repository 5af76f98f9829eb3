"""Complete the properties of a catalog by those from Secrets, where the operator may read them.

The only module of the operator that reads credentials. Values are cached for some minutes, so that
polls cost no requests, and no message repeats one.
"""

import time
from collections.abc import Callable
from typing import Protocol

from icdc_api.errors import Unauthorized
from icdc_api.spec.catalog import Catalog
from icdc_api.spec.secrets import pick_authority
from icdc_operator.cluster.heads.catalog_properties import OutOfSight
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.kinds import Kind, Resource

CACHE_SECONDS = 300.0
"""Lifetime of a cached Secret. `forget` ends it earlier, when the catalog refuses it."""

FLAG = "--read-catalog-secrets"


class SecretApi(Protocol):
    """The part of `ClusterApi` that reads Secrets. Raises the errors of `kube.api_errors`."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        """Return the object, or None if it does not exist."""
        ...


class CatalogSecrets:
    """Read and cache the Secrets that pipelines name. `clock` gives monotonic seconds."""

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
        self._cache: dict[tuple[str, str], tuple[float, dict[str, str]]] = {}

    async def read_properties(self, namespace: str, catalog: Catalog) -> dict[str, str]:
        """Return the properties of the spec, overridden by each Secret's, the last one winning.

        Raises OutOfSight where the operator may not read Secrets, and Unauthorized or an error of
        the API server where one cannot be read.
        """
        result = dict(catalog.properties)
        if catalog.secrets and not self._allowed:
            field = "propertiesFrom" if catalog.properties_from else "tls.caFrom"
            raise OutOfSight(
                f"its catalog has {field}, and the operator was not started with "
                f"{FLAG} (chart: readCatalogSecrets)"
            )
        for source in catalog.properties_from:
            result.update(await self._read_secret(namespace, source.secret_ref.name))
        return result

    async def read_authority(self, namespace: str, catalog: Catalog) -> str | None:
        """Return the certificates by which the catalog is trusted, as PEM; None without any.

        Errors are those of `read_properties`, which is called first, and of `pick_authority`.
        """
        name = catalog.authority_secret
        if name is None:
            return None
        try:
            return pick_authority(await self._read_secret(namespace, name), name)
        except Unauthorized:
            # Corrected by a person, who waits for the next poll.
            self.forget(namespace, catalog)
            raise

    def forget(self, namespace: str, catalog: Catalog) -> None:
        """Drop the cached Secrets of a catalog that refused them: they may have been rotated."""
        for name in catalog.secrets:
            self._cache.pop((namespace, name), None)

    async def _read_secret(self, namespace: str, name: str) -> dict[str, str]:
        now = self._clock()
        # All that have expired, not only this one: credentials of pipelines that were deleted must
        # not stay in memory.
        self._cache = {key: entry for key, entry in self._cache.items() if entry[0] > now}
        entry = self._cache.get((namespace, name))
        if entry is not None:
            return entry[1]
        secret = await self._api.get(kinds.SECRET, namespace, name)
        if secret is None:
            raise Unauthorized(f"there is no Secret {name!r} in the namespace of the pipeline")
        values = {
            key: _decode_value(value, name=name, key=key)
            for key, value in kinds.decode_secret(secret).items()
        }
        self._cache[(namespace, name)] = (now + CACHE_SECONDS, values)
        return values


def _decode_value(value: bytes, *, name: str, key: str) -> str:
    """Decode one value without its final newline, as runs read the mounted file."""
    try:
        return value.decode().removesuffix("\n")
    except UnicodeDecodeError:
        raise Unauthorized(f"the Secret {name!r} holds no UTF-8 text at {key!r}") from None
