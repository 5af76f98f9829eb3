"""Rules of the spec that the API server checks by itself, as CEL.

Each has an equal rule in a model validator, so that local runs report the same. They are written so
that the cost estimate of the API server, which multiplies the bounds of every list and string that
a rule visits, stays far below its limits.

    model     Retry._check_bounds raises build_refusal(initialSeconds, …)
    here      CelRule("spec.retry", "self.initialSeconds <= self.maxSeconds", message)
    CRD       properties.spec.properties.retry.x-kubernetes-validations: [{rule, message}]
    kubectl   spec.retry: Invalid value: …: spec.retry.initialSeconds must be at most maxSeconds

`generator` puts each rule at its node. Defaults are filled in before rules are checked, so a field
with a default is always there; any other one needs `has()`.
"""

from dataclasses import dataclass

from icdc_api import naming
from icdc_api.key_patterns import build_pattern
from icdc_api.spec.catalog import CATALOG_KIND_RULE
from icdc_api.spec.export_window import WINDOW_RULE
from icdc_api.spec.indices.ingest_pipeline import PIPELINE_NAME_RULE
from icdc_api.spec.proof import DURATION_FORM, DURATION_RULE, GREATEST, LEAST, UNITS
from icdc_api.spec.spark import LOCAL_VOLUME_RULE, MIN_MAX_RULE
from icdc_api.spec.spark_conf import ALLOWED_TABLE, DOCUMENT, REFUSED_TABLE, TRUSTED_TABLE
from icdc_api.spec.tables import (
    APPEND_ONLY_RULE,
    ROUTING_KEY_RULE,
    ROUTING_RULE,
    START_FROM_RULE,
)

_NUMBER = "int(self.substring(0, self.size() - 1))"
_MOST = {name: GREATEST // unit for name, unit in UNITS.items()}
"""The greatest number of each unit that `spec.verify.every` may have."""


@dataclass(frozen=True)
class CelRule:
    """One rule of the CRD."""

    path: str
    """Node of the schema that has the rule, see `schema.find_node`."""
    rule: str
    """The expression: true for allowed values."""
    message: str
    """Message of the API server where it is false; it names the field."""


def _quote(text: str) -> str:
    # CEL reads a backslash in a text as an escape, and would take those of a pattern away.
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_LISTED = build_pattern(
    [*ALLOWED_TABLE.keys, *TRUSTED_TABLE.keys],
    [*ALLOWED_TABLE.beginnings, *TRUSTED_TABLE.beginnings],
)

_REFUSED = build_pattern(REFUSED_TABLE.keys, REFUSED_TABLE.beginnings)
"""Expressions for the keys of properties only: the operator checks values and trust. Two rules,
because the cost of one call is bounded and grows with expression and keys."""

_INDEX_CHARACTER = 'A-Z\\\\/*?"<>|,# :\\s'
INDEX_PATTERN = f"^[^{_INDEX_CHARACTER}_+-][^{_INDEX_CHARACTER}]*$"


RULES = (
    # At the root: of metadata, rules see the name alone, and only from there.
    CelRule(
        "",
        f"self.metadata.name.size() <= {naming.MAX_PIPELINE_NAME} && "
        f"self.metadata.name.matches({_quote(naming.PIPELINE_NAME_PATTERN)})",
        f"metadata.name: at most {naming.MAX_PIPELINE_NAME} characters, "
        f"{naming.PIPELINE_NAME_WORDS}",
    ),
    CelRule(
        "spec",
        "has(self.catalog) || self.tables.all(t, has(t.catalog))",
        "spec.catalog: required unless every table has a catalog of its own",
    ),
    # That indices are unique is left to the model: many are the default made of the table's name,
    # and comparing each with each would exceed the limit for one rule.
    CelRule(
        "spec",
        "self.mode == 'StreamOnly' || self.tables.all(t, !has(t.startFrom))",
        "spec.tables[].startFrom: allowed only with spec.mode StreamOnly",
    ),
    CelRule(
        "spec",
        "self.mode != 'ExportOnly' || self.changelog.trigger != 'Continuous'",
        "spec.changelog.trigger: Continuous is excluded by spec.mode ExportOnly",
    ),
    CelRule(
        "spec",
        # `has`, although it defaults to an empty list: the CRD has no empty defaults.
        # `sets.contains` costs as many units as there are pairs, whatever the length of a name.
        "!has(self.resync.tables) || sets.contains(self.tables.map(t, t.name), self.resync.tables)",
        "spec.resync.tables: each must be the name of a table in spec.tables",
    ),
    # With oldSelf a rule is checked on updates alone, so no model has these two: a file has no
    # former value.
    CelRule("spec.resync.nonce", "self >= oldSelf", "spec.resync.nonce cannot be lowered"),
    CelRule("spec.restartNonce", "self >= oldSelf", "spec.restartNonce cannot be lowered"),
    CelRule(
        "spec.retry",
        "self.initialSeconds <= self.maxSeconds",
        "spec.retry.initialSeconds must be at most maxSeconds",
    ),
    CelRule(
        "spec.tables[].name",
        f"self.matches({_quote(naming.TABLE_NAME_PATTERN)})",
        "spec.tables[].name: it must be namespace.table, with backticks around a part that "
        "contains a dot or a space",
    ),
    # bytes(): OpenSearch bounds bytes of UTF-8, while maxLength of the schema counts characters.
    CelRule(
        "spec.tables[].index",
        f"self.matches({_quote(INDEX_PATTERN)}) && self != '.' && self != '..' "
        f"&& self != '{naming.STATE_INDEX}' && bytes(self).size() <= {naming.MAX_INDEX_BYTES}",
        f"spec.tables[].index: {naming.INDEX_RULE}; it has at most {naming.MAX_INDEX_BYTES} bytes, "
        f"and {naming.STATE_INDEX} is reserved",
    ),
    CelRule(
        "spec.tables[].identifierColumns",
        # `y in [x]` and not `x == y`, whose estimate grows with the length of the longest name.
        "self.all(x, self.exists_one(y, y in [x]))",
        "spec.tables[].identifierColumns: columns must be unique",
    ),
    CelRule(
        "spec.tables[]",
        "!self.appendOnly || !has(self.identifierColumns)",
        f"spec.tables[].{APPEND_ONLY_RULE}",
    ),
    CelRule(
        "spec.tables[].routing",
        "self.all(x, self.exists_one(y, y in [x]))",
        "spec.tables[].routing: columns must be unique",
    ),
    CelRule(
        "spec.tables[]",
        "!self.appendOnly || !has(self.routing) || size(self.routing) == 0",
        f"spec.tables[].{ROUTING_RULE}",
    ),
    CelRule(
        "spec.tables[]",
        "!has(self.routing) || !has(self.identifierColumns) || "
        "self.routing.all(x, x in self.identifierColumns)",
        f"spec.tables[].routing: {ROUTING_KEY_RULE}",
    ),
    CelRule(
        "spec.tables[].startFrom",
        # Counted: CEL does not add booleans, and `a != b != c` is true of all three as well.
        "[has(self.position), has(self.snapshotId), has(self.timestamp)].exists_one(x, x)",
        f"spec.tables[].startFrom: {START_FROM_RULE}",
    ),
    # A Secret may hold the kind, and its keys are not seen here.
    *(
        CelRule(
            path,
            "(has(self.propertiesFrom) && size(self.propertiesFrom) > 0) || (has(self.properties) "
            "&& ('type' in self.properties || 'catalog-impl' in self.properties))",
            f"{path}.properties: {CATALOG_KIND_RULE}",
        )
        for path in ("spec.catalog", "spec.tables[].catalog")
    ),
    CelRule(
        "spec.sink.opensearch.limits.exportWindow",
        "self == '' || self.substring(0, 5) != self.substring(6)",
        f"spec.sink.opensearch.limits.exportWindow: {WINDOW_RULE}",
    ),
    CelRule(
        "spec.verify.every",
        # What has another form is refused by the pattern, and is no number here.
        f"self == '' || !self.matches({_quote(DURATION_FORM)}) || (self.endsWith('m') ? "
        f"{_NUMBER} >= {LEAST // UNITS['m']} && {_NUMBER} <= {_MOST['m']} : "
        f"{_NUMBER} <= (self.endsWith('h') ? {_MOST['h']} : {_MOST['d']}))",
        f"spec.verify.every: {DURATION_RULE}",
    ),
    CelRule(
        "spec.sink.opensearch.pipeline",
        "!has(self.adds) || size(self.adds) == 0 || (has(self.name) && self.name != '')",
        f"spec.sink.opensearch.pipeline.name: {PIPELINE_NAME_RULE}",
    ),
    CelRule(
        "spec.spark.conf",
        f"self.all(key, key.matches({_quote(_LISTED)}))",
        f"spec.spark.conf: properties that are not in {DOCUMENT} are refused",
    ),
    CelRule(
        "spec.spark.conf",
        f"self.all(key, !key.matches({_quote(_REFUSED)}))",
        "spec.spark.conf: properties are refused if they are set for every run, have a field in "
        "spec.spark, are denied by spark-operator, or change the documents",
    ),
    CelRule(
        "spec.spark.dynamicAllocation",
        "self.minExecutors <= self.maxExecutors",
        f"spec.spark.dynamicAllocation: {MIN_MAX_RULE}",
    ),
    CelRule(
        "spec.spark.localVolumes[]",
        "has(self.hostPath) != has(self.ephemeral)",
        f"spec.spark.localVolumes[]: {LOCAL_VOLUME_RULE}",
    ),
)
