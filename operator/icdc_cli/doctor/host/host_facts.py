"""Read a host and a pipeline's file for `icdc doctor -f`. Starts no JVM, fetches no jar.

Each part is read by itself, and an error becomes the fact: a missing JDK must not hide that a
Secret is missing too. Imports pyiceberg and the client of OpenSearch where they are needed, and
takes one that is not installed for a fact as well.
"""

import platform
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from icdc_api.errors import BadSpec, Bug, IcdcError, SourceUnavailable
from icdc_api.spec.catalog import Catalog
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.spec.secrets import load_catalog_properties, read_secret
from icdc_cli.doctor.host.host_checks import HostFacts
from icdc_cli.embedded import jars, jdk
from icdc_cli.local import application, resource
from icdc_operator.cluster.heads.catalog_properties import OutOfSight
from icdc_operator.cluster.heads.table_facts import TableFacts
from icdc_operator.manifests.secret_names import list_secret_names

CATALOG_SECONDS = 60.0
"""How long one catalog may take for all its tables; some of its libraries wait without end."""

Value = TypeVar("Value")

Reader = Callable[[str, Mapping[str, str], Sequence[str]], Mapping[str, TableFacts | IcdcError]]
"""From name and properties of a catalog, and names of tables, to their facts."""


def read_host(path: Path, secrets_dir: Path | None) -> HostFacts:
    """Return what there is; every error but of our own making is part of it."""
    spec = _read_spec(path)
    parsed = None if isinstance(spec, BadSpec) else spec
    return HostFacts(
        source=str(path),
        python=platform.python_version(),
        missing_packages=application.list_missing_packages(),
        java=_read_java(),
        jars={name: jars.is_fetched(name) for name in application.list_jar_sets(parsed)},
        can_fetch=shutil.which("mvn") is not None,
        spec=spec,
        secrets={} if parsed is None else _read_secrets(parsed, secrets_dir),
        tables={} if parsed is None else _read_all_tables(parsed, secrets_dir),
    )


def _read_spec(path: Path) -> PipelineSpec | BadSpec:
    try:
        return resource.load(path).pipeline.spec
    except BadSpec as error:
        return error


def _read_java() -> str | IcdcError:
    try:
        java = jdk.find_spark_jdk()
    except IcdcError as error:
        return error
    return f"{java.major} in {java.home}"


def _read_secrets(
    spec: PipelineSpec, secrets_dir: Path | None
) -> dict[str, frozenset[str] | IcdcError]:
    def read(name: str) -> frozenset[str] | IcdcError:
        try:
            return frozenset(read_secret(secrets_dir, name))
        except IcdcError as error:
            return error

    return {name: read(name) for name in list_secret_names(spec)}


def _read_all_tables(
    spec: PipelineSpec, secrets_dir: Path | None
) -> dict[str, TableFacts | IcdcError]:
    """Return what the catalogs say, each asked once for all its tables."""
    by_catalog: dict[str, tuple[Catalog, list[str]]] = {}
    for table in spec.tables:
        catalog = spec.get_catalog(table)
        # By its text, since a catalog holds mappings and cannot be a key.
        by_catalog.setdefault(catalog.model_dump_json(), (catalog, []))[1].append(table.name)
    facts: dict[str, TableFacts | IcdcError] = {}
    for catalog, names in by_catalog.values():
        facts |= _read_catalog(catalog, names, secrets_dir)
    return facts


def _read_catalog(
    catalog: Catalog, names: list[str], secrets_dir: Path | None
) -> Mapping[str, TableFacts | IcdcError]:
    try:
        properties = load_catalog_properties(catalog, secrets_dir)
        read_tables = _import_reader()
        return _limit_time(lambda: read_tables(catalog.name, properties, names))
    except IcdcError as error:
        return dict.fromkeys(names, error)


def _import_reader() -> Reader:
    """Return the function that reads tables; OutOfSight where its libraries are not installed."""
    try:
        from icdc_operator.cluster.heads.reader import tables
    except ImportError as error:
        text = f"no Python library that reads catalogs is installed ({error.name})"
        raise OutOfSight(text) from error
    return tables.read_tables


def _limit_time(call: Callable[[], Value]) -> Value:
    """Return the result of `call`; SourceUnavailable after CATALOG_SECONDS."""
    results: list[Value] = []
    # A daemon: what hangs in a library must not keep the process alive.
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()
    thread.join(CATALOG_SECONDS)
    if not results and not thread.is_alive():
        raise Bug("the catalog's library failed, see the traceback above")
    if not results:
        raise SourceUnavailable(f"the catalog did not answer within {CATALOG_SECONDS:.0f} s")
    return results[0]
