"""Limits of what a pipeline may hold as a whole, which no single field can keep.

A request that does not fit into its ConfigMap, or a pod with too many volumes, would only be
refused when a run is created. So both are refused with the spec, whoever reads it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from icdc_api.json_size import measure_stored
from icdc_api.spec.pipeline import PipelineSpec

MAX_SPEC_BYTES = 450 * 1024
"""Bytes of a spec as JSON, with its defaults. A ConfigMap takes 1 MiB, and a request has at most
this spec, the names of its tables once more, and a question of MAX_ASK_BYTES."""

MAX_SECRETS = 200
"""Secrets of one pipeline: driver and executors mount each of them as a volume."""


def find_excess(spec: PipelineSpec) -> Iterator[str]:
    """Yield one sentence for each limit that is exceeded: field, size, limit, what to do."""
    # With defaults, as the API server stores it: a file has the size that its pipeline will have.
    document = spec.to_resource()
    size = measure_stored(document)
    if size > MAX_SPEC_BYTES:
        field, most = _find_largest(document)
        yield (
            f"spec: it has {size} bytes as JSON; at most {MAX_SPEC_BYTES} are allowed. {field} has "
            f"{most} of them: shorten that, or use fewer tables in one pipeline"
        )
    catalogs = [spec.catalog, *(table.catalog for table in spec.tables)]
    names = {name for catalog in catalogs if catalog is not None for name in catalog.secrets}
    if len(names) > MAX_SECRETS:
        yield (
            f"spec.tables[].catalog: {len(names)} Secrets are named; at most "
            f"{MAX_SECRETS} are allowed: use fewer catalogs in one pipeline"
        )


def _find_largest(document: Mapping[str, Any]) -> tuple[str, int]:
    """Return the field with the most bytes, those of all tables taken together, and its bytes."""
    sizes: Counter[str] = Counter()
    for name, value in document.items():
        if name != "tables":
            sizes[f"spec.{name}"] = measure_stored(value)
    for table in document["tables"]:
        for name, value in table.items():
            sizes[f"spec.tables[].{name}"] += measure_stored(value)
    return sizes.most_common(1)[0]
