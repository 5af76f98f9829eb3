"""Find what a valid spec should not say: it is reported, and nothing is refused.

The operator shows the sentences in the condition SpecValid and in its Event, `icdc plan -f` on
stderr. Pure; it must not know who shows them.
"""

import re
from collections.abc import Iterator

from icdc_api.spec.catalog import Catalog
from icdc_api.spec.changelog import Trigger
from icdc_api.spec.pipeline import PipelineSpec

_IN_THE_CLEAR = re.compile(r"http://(?!(localhost|127\.0\.0\.1|\[::1\])([:/]|$))")
"""An address that is not encrypted and not on loopback, where nobody else listens."""


def find_cautions(spec: PipelineSpec) -> Iterator[str]:
    """Yield one sentence per caution: the field, what happens, what to do.

    sink.opensearch.hosts: http://search:9200      with credentialsFrom: a caution
    catalog.properties.uri: http://rest:8181       with propertiesFrom: a caution
    catalog.properties.uri: thrift://hive:9083     none: no credentials of ours go there
    any of them on loopback, or without a Secret   none
    """
    sink = spec.sink.opensearch
    # A node of the local runner listens on loopback, and `embedded` is no address at all.
    if sink.credentials_from is not None and not sink.embedded:
        plain = [host for host in sink.hosts if _IN_THE_CLEAR.match(host)]
        if plain:
            yield _describe_unencrypted("spec.sink.opensearch.hosts", plain[0])
    shares_run = spec.changelog.trigger is Trigger.CONTINUOUS
    if spec.verify is not None and spec.verify.max_cpu is not None and shares_run:
        yield (
            "spec.verify.maxCpu: it has no effect with the trigger Continuous, where the run that "
            "follows the tables compares them; limit spec.spark.executor instead"
        )
    if spec.catalog is not None:
        yield from _list_catalog_cautions("spec.catalog", spec.catalog)
    for position, table in enumerate(spec.tables):
        if table.catalog is not None:
            yield from _list_catalog_cautions(f"spec.tables[{position}].catalog", table.catalog)


def _list_catalog_cautions(field: str, catalog: Catalog) -> Iterator[str]:
    """Yield the caution of a catalog that is given a Secret and an unencrypted address.

    An address that comes from the Secret itself cannot be seen here.
    """
    uri = catalog.properties.get("uri", "")
    if catalog.properties_from and _IN_THE_CLEAR.match(uri):
        # An address may hold a password before its host, which no message repeats.
        yield _describe_unencrypted(f"{field}.properties.uri", re.sub(r"//[^/@]*@", "//", uri))


def _describe_unencrypted(field: str, address: str) -> str:
    return (
        f"{field}: the credentials of {address} are sent unencrypted, and "
        "anyone on the network path can read them; use https"
    )
