"""Which Secrets a pipeline's runs need. Reads none of them."""

from icdc_api.spec import PipelineSpec


def secret_names(spec: PipelineSpec) -> tuple[str, ...]:
    """Names of the Secrets that a run reads, each once, sorted.

    A Secret that nothing would read is left out: a pod waits for every Secret that it mounts.
    """
    catalogs = [spec.catalog_of(table) for table in spec.tables]
    sources = [source for catalog in catalogs for source in catalog.properties_from]
    opensearch = spec.sink.opensearch
    if opensearch.credentials_from is not None:
        sources.append(opensearch.credentials_from)
    if opensearch.tls.ca_from is not None and not opensearch.tls.insecure_skip_verify:
        sources.append(opensearch.tls.ca_from)
    return tuple(sorted({source.secret_ref.name for source in sources}))
