"""The Secrets that runs of a pipeline mount. Reads none of them."""

from collections.abc import Iterator

from icdc_api.spec.catalog import Catalog
from icdc_api.spec.pipeline import PipelineSpec


def list_secret_names(spec: PipelineSpec) -> tuple[str, ...]:
    """Return the names of the Secrets that a run reads, unique and sorted."""
    return tuple(sorted({name for _, name in list_secret_fields(spec)}))


def list_authority_secrets(spec: PipelineSpec) -> tuple[str, ...]:
    """Return the names of the Secrets with certificates that catalogs name, unique and sorted."""
    catalogs = [spec.get_catalog(table) for table in spec.tables]
    return tuple(sorted({name for catalog in catalogs if (name := catalog.authority_secret)}))


def list_secret_fields(spec: PipelineSpec) -> Iterator[tuple[str, str]]:
    """Yield each field that refers to a Secret that a run reads, with the name of the Secret.

    A Secret that nothing would read is omitted: a pod does not start before all that it mounts
    exist.
    """
    if any(table.catalog is None for table in spec.tables):
        yield from _list_catalog_secrets("spec.catalog", spec.catalog)
    for position, table in enumerate(spec.tables):
        yield from _list_catalog_secrets(f"spec.tables[{position}].catalog", table.catalog)
    opensearch, where = spec.sink.opensearch, "spec.sink.opensearch"
    if opensearch.credentials_from is not None:
        yield f"{where}.credentialsFrom", opensearch.credentials_from.secret_ref.name
    if opensearch.tls.ca_from is not None and not opensearch.tls.insecure_skip_verify:
        yield f"{where}.tls.caFrom", opensearch.tls.ca_from.secret_ref.name


def _list_catalog_secrets(where: str, catalog: Catalog | None) -> Iterator[tuple[str, str]]:
    if catalog is None:
        return
    for position, source in enumerate(catalog.properties_from):
        yield f"{where}.propertiesFrom[{position}]", source.secret_ref.name
    if catalog.authority_secret is not None:
        yield f"{where}.tls.caFrom", catalog.authority_secret
