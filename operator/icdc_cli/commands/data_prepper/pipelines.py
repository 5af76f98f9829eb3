"""A pipeline of Data Prepper as an IcebergCDCPipeline.

source.iceberg              catalog, tables[], polling_interval
sink[].opensearch           see `sinks`
everything else             a note, of which `remarks` has the text
"""

import math
import re
from dataclasses import dataclass
from typing import Any

from icdc_api import naming
from icdc_api.crd import loading
from icdc_api.crd.explain import describe_kind
from icdc_api.errors import BadSpec
from icdc_api.spec.indices.fields import EVERY
from icdc_cli import options
from icdc_cli.commands.data_prepper import remarks, sinks
from icdc_cli.commands.data_prepper.catalogs import convert_catalog
from icdc_cli.commands.data_prepper.sections import Section
from icdc_cli.commands.data_prepper.sinks import ConvertedSink

# With a bound of digits: a float of more is infinite, and no number of seconds.
_DAYS, _HOURS, _MINUTES = (rf"(?:([0-9]{{1,9}}){unit})?" for unit in "DHM")
_SECONDS = r"(?:([0-9]{1,9}(?:[.][0-9]{1,9})?)S)?"
_DURATION = re.compile(rf"P{_DAYS}(?:T{_HOURS}{_MINUTES}{_SECONDS})?", re.I)
_SHORT_DURATION = re.compile(r"([0-9]{1,9})(ms|s)")


EXPECTED = "NAME: {source: {iceberg: …}, sink: [{opensearch: …}]}"
"""What a file of Data Prepper has, for messages."""


@dataclass(frozen=True)
class Conversion:
    """A pipeline with what has to be said of it."""

    resource: dict[str, Any]
    """The IcebergCDCPipeline; it is valid."""
    notes: list[str]
    """One sentence or more for each option without a counterpart, or that needs a step."""


def convert(document: dict[str, Any], *, source: str, wanted: str | None = None) -> Conversion:
    """Convert the pipeline `wanted`, or the only one with an Iceberg source.

    `document` has each value as it is written, see `yaml_text`. BadSpec, which begins with the file
    `source`, for one that is none of Data Prepper, and for a result that would not be valid.
    """
    notes: list[str] = []
    key = _choose_pipeline(document, source, wanted)
    pipeline = Section(document[key], key, source, notes)
    name = _name_pipeline(key, source)
    given = pipeline.open("source", pipeline.take("source"))
    iceberg = given.open("iceberg", given.take("iceberg"))
    given.close({})
    sink = _convert_sinks(pipeline, name)
    spec = _convert_source(iceberg, name, sink)
    spec["sink"] = {"opensearch": sink.opensearch}
    pipeline.note(
        "sink.opensearch.index",
        "readers use an alias of this name. Delete the index that Data Prepper has made, or set "
        "another name in tables[].index: with an index of that name the table stalls (AliasTaken)",
    )
    pipeline.close(remarks.PIPELINE)
    for other in document:
        if other != key and other != "version":
            notes.append(f"{other}: not a part of the pipeline {key}, and was left out")
    resource = {
        "apiVersion": naming.API_VERSION,
        "kind": naming.KIND,
        "metadata": {"name": name},
        "spec": spec,
    }
    loading.parse_pipeline(resource, source=f"{source}, as converted")
    return Conversion(resource, notes)


def _choose_pipeline(document: dict[str, Any], source: str, wanted: str | None) -> str:
    # First: a file of ours, given by mistake, would be refused for the source that it lacks.
    if document.get("kind") is not None or document.get("apiVersion") is not None:
        raise BadSpec(f"{source}: is a resource of Kubernetes, not a file of Data Prepper")
    sources = {
        key: value.get("source")
        for key, value in document.items()
        if key not in remarks.TOP and isinstance(value, dict)
    }
    names = [
        key for key, given in sources.items() if isinstance(given, dict) and "iceberg" in given
    ]
    if wanted is not None:
        if wanted not in names:
            near = options.suggest_name(wanted, names)
            raise BadSpec(f"{source}: has no pipeline {wanted} with an iceberg source{near}")
        return wanted
    if len(names) == 1:
        return names[0]
    if names:
        raise BadSpec(f"{source}: has the pipelines {', '.join(names)}: choose one by --pipeline")
    raise BadSpec(
        f"{source}: has no pipeline with an iceberg source{_describe_sources(document, sources)}"
    )


def _describe_sources(document: dict[str, Any], sources: dict[str, Any]) -> str:
    """Return what was found instead, with the key that was probably meant."""
    for key, given in sources.items():
        if isinstance(given, dict) and given:
            plugin = next(iter(given))
            return f": the source of {key} is {plugin}{options.suggest_name(plugin, ['iceberg'])}"
        if given is not None:
            return f": the source of {key} is {describe_kind(given)}; allowed: {{iceberg: …}}"
        for name in document[key]:
            near = options.suggest_name(name, ["source"])
            if near and name != "source":
                return f": {key} has the key {name}{near}"
    return f"; expected: {EXPECTED}"


def _name_pipeline(key: str, source: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", key.lower()).strip("-")
    if not name:
        # Any name that were made up here could be that of another pipeline of the cluster.
        raise BadSpec(
            f"{source}: {key}: no name of a pipeline can be made of this key; allowed: one with a "
            "letter or digit of a-z, A-Z, 0-9"
        )
    # Runs are named after it, and spark-operator refuses a name that begins with a digit.
    if not name[:1].isalpha():
        name = f"p-{name}".strip("-")
    # The cut may fall behind a dash, with which no name may end.
    return name[: naming.MAX_PIPELINE_NAME].strip("-")


def _convert_sinks(pipeline: Section, name: str) -> ConvertedSink:
    given = pipeline.take("sink")
    if given is None:
        raise pipeline.refuse_kind("sink", None, "one opensearch")
    listed = given if isinstance(given, list) else [given]
    entries: list[tuple[str, Any]] = []
    for position, entry in enumerate(listed):
        section = pipeline.open(f"sink[{position}]", entry)
        entries += section.take_all().items()
    targets = [value for plugin, value in entries if plugin == "opensearch"]
    for plugin, _ in entries:
        if plugin != "opensearch":
            pipeline.note(f"sink.{plugin}", "only the sink opensearch has a counterpart")
    if len(targets) != 1:
        plugins = ", ".join(plugin for plugin, _ in entries) or "none"
        near = next(filter(None, (options.suggest_name(p, ["opensearch"]) for p, _ in entries)), "")
        raise BadSpec(
            f"{pipeline.source}: {pipeline.path}.sink: has {plugins}; allowed: one opensearch"
            f"{near if not targets else ', so convert the file once with each of them'}"
        )
    return sinks.convert(pipeline.open("sink.opensearch", targets[0]), name)


def _convert_source(iceberg: Section, name: str, sink: ConvertedSink) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    listed = iceberg.take("tables")
    if not isinstance(listed, list) or not listed:
        raise iceberg.refuse_kind("tables", listed or None, "a list of tables")
    sections = [iceberg.open(f"tables[{n}]", entry) for n, entry in enumerate(listed)]
    catalog = iceberg.take("catalog")
    # Before the tables are converted: that closes a section, which notes what is left in it.
    skipped = [section.take_flag("disable_export") for section in sections]
    tables = [_convert_table(section, name, sink, alone=len(sections) == 1) for section in sections]
    # Without one at the top, each table has its own, and that of the first serves as the shared.
    if catalog:
        spec["catalog"] = convert_catalog(iceberg, catalog, f"{name}-catalog")
    elif "catalog" in tables[0]:
        spec["catalog"] = tables[0].pop("catalog")
    else:
        raise BadSpec(f"{iceberg.source}: {iceberg.path}.catalog: missing; allowed: properties")
    if all(skipped):
        spec["mode"] = "StreamOnly"
        iceberg.note(
            "tables[].disable_export",
            "Data Prepper then repeats all retained history; here only what comes after the first "
            "run is applied, unless tables[].startFrom says {position: Earliest}",
        )
    elif any(skipped):
        iceberg.note(
            "tables[].disable_export",
            "the mode belongs to the pipeline, so all tables are exported: use two pipelines, one "
            "of them with mode: StreamOnly",
        )
    spec["tables"] = tables
    interval = iceberg.take_text("polling_interval")
    if interval is not None:
        spec["changelog"] = {"pollIntervalSeconds": _parse_seconds(iceberg, interval)}
    iceberg.close(remarks.SOURCE)
    return spec


def _convert_table(
    section: Section, name: str, sink: ConvertedSink, *, alone: bool
) -> dict[str, Any]:
    table: dict[str, Any] = {"name": section.take_text("table_name")}
    if table["name"] is None:
        raise section.refuse_kind("table_name", None, "namespace.table")
    catalog = section.take("catalog")
    if catalog:
        # The digits alone, as the name of a Secret takes no brackets.
        position = re.sub(r"\D", "", section.path.rpartition("tables")[2])
        table["catalog"] = convert_catalog(section, catalog, f"{name}-catalog-{position}")
    columns = section.take_texts("identifier_columns") or sink.identifier_columns
    if columns:
        table["identifierColumns"] = list(columns)
    else:
        section.note(
            "identifier_columns",
            "absent: the identifier fields of the table are used; if it has none, set "
            "identifierColumns, or appendOnly: true",
        )
    if sink.routing and set(sink.routing) <= set(columns):
        table["routing"] = list(dict.fromkeys(sink.routing))
    elif sink.routing:
        section.note("identifier_columns", f"{', '.join(sink.routing)}: {remarks.ROUTING}")
    if sink.columns:
        table["columns"] = list(sink.columns)
    elif sink.excluded:
        table["fields"] = [EVERY, *({"exclude": column} for column in sink.excluded)]
    if sink.index is not None and alone:
        table["index"] = sink.index
    elif sink.index is not None:
        # Two tables in one index could overwrite each other's documents.
        table["index"] = f"{sink.index}-{naming.derive_index(table['name'])}"
        section.note("table_name", f"each table has an index of its own: {table['index']}")
    section.close({})
    return table


def _parse_seconds(section: Section, value: str) -> int:
    """Return a duration such as PT30S, PT5M, 30s or 500ms in whole seconds, at least 1."""
    short, long = _SHORT_DURATION.fullmatch(value), _DURATION.fullmatch(value)
    if short:
        seconds = int(short[1]) / (1000 if short[2] == "ms" else 1)
    elif long and any(long.groups()):
        parts = [float(part or 0) for part in long.groups()]
        seconds = sum(part * unit for part, unit in zip(parts, (86400, 3600, 60, 1), strict=True))
    else:
        raise section.refuse("polling_interval", value, "a duration such as PT30S or 30s")
    # The bounds of `pollIntervalSeconds` in the CRD.
    return min(max(1, math.ceil(seconds)), 86400)
