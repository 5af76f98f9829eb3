"""The CustomResourceDefinition, generated from the models. `python -m icdc_api.crd` prints it.

`--write` writes it to the committed file. `--check` fails if that file differs, so that it never
drifts from the models. Must not hold a description of its own for a field: the models do.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from icdc_api import naming
from icdc_api.crd.cel import RULES
from icdc_api.crd.schema import Schema, build_structural_schema, find_node
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.pipeline_status import UNOBSERVED, PipelineStatus

HEADER = "# Made from the models in crds/icdc_api by `make crds`. Do not edit.\n"
FILE_NAME = f"{naming.PLURAL}.{naming.GROUP}.yaml"
# Beside the package in a checkout; an installed package has no such file.
COMMITTED = Path(__file__).parents[2] / FILE_NAME


def _build_condition_path(kind: str, field: str = "status") -> str:
    return f'.status.conditions[?(@.type=="{kind}")].{field}'


# Name, type, JSON path, whether only `-o wide` shows it, description. Lag is a number and not a
# date: kubectl prints a date as an age, which would grow while nothing is behind.
_COLUMNS = (
    (
        "Ready",
        "string",
        _build_condition_path("Ready"),
        False,
        "Tables exported, and the last run succeeded",
    ),
    ("Phase", "string", ".status.phase", False, "State in one word"),
    ("Tables", "string", ".status.summary.tables", False, "Tables streaming or complete, of all"),
    ("Behind", "integer", ".status.summary.snapshotsBehind", False, "Greatest snapshot backlog"),
    ("Lag", "integer", ".status.summary.lagSeconds", False, "Greatest lag in seconds"),
    ("Run", "string", ".status.currentRun.name", False, "The active run"),
    ("Age", "date", ".metadata.creationTimestamp", False, "Time since the pipeline was created"),
    (
        "Exported",
        "string",
        _build_condition_path("Exported"),
        True,
        "Whether every table is exported",
    ),
    ("Export", "string", ".status.summary.export", True, "Chunks done, rows a second, end"),
    ("Failures", "integer", ".status.consecutiveFailures", True, "Attempts that failed in a row"),
    (
        "Message",
        "string",
        _build_condition_path("Ready", "message"),
        True,
        "What Ready says; who must act",
    ),
)
# For `kubectl get --field-selector`. Kubernetes takes single texts, numbers and booleans only, so
# no condition can be among them.
_SELECTABLE = (
    ".spec.suspend",
    ".spec.mode",
    ".spec.deletionPolicy",
    ".status.phase",
    ".status.currentRun.name",
)


def build_document() -> dict[str, Any]:
    """Return the CustomResourceDefinition as plain values."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": naming.CRD_NAME},
        "spec": {
            "group": naming.GROUP,
            "names": {
                "kind": naming.KIND,
                "listKind": f"{naming.KIND}List",
                "plural": naming.PLURAL,
                "singular": naming.SINGULAR,
                "shortNames": [naming.SHORT_NAME],
                "categories": [naming.CATEGORY],
            },
            "scope": "Namespaced",
            "versions": [_build_version()],
        },
    }


def _build_version() -> dict[str, Any]:
    return {
        "name": naming.VERSION,
        "served": True,
        "storage": True,
        # With it a write of the status leaves `metadata.generation` alone, which only then counts
        # changes of the spec: the observedGeneration of status and conditions rests on that.
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_build_column(*column) for column in _COLUMNS],
        "selectableFields": [{"jsonPath": path} for path in _SELECTABLE],
        "schema": {"openAPIV3Schema": build_root_schema()},
    }


def _build_column(name: str, kind: str, path: str, wide: bool, description: str) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    if wide:
        column["priority"] = 1
    return column | {"description": description}


def build_root_schema() -> Schema:
    """Return the structural schema of the whole resource, with its CEL rules."""
    root: Schema = {
        "description": "Keeps OpenSearch indices equal to Apache Iceberg tables.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {
                "type": "string",
                "maxLength": 64,
                "description": f"Version of the API: {naming.API_VERSION}.",
            },
            "kind": {
                "type": "string",
                "maxLength": 64,
                "description": f"Kind of the resource: {naming.KIND}.",
            },
            # The API server allows nothing more here, not even a description.
            "metadata": {"type": "object"},
            "spec": build_structural_schema(PipelineSpec, defaults=True),
            # Without defaults: a field that the API server fills in would look like an observation.
            # The one that it fills in says that there was none yet.
            "status": {
                **build_structural_schema(PipelineStatus, defaults=False),
                "default": {"observedGeneration": UNOBSERVED},
            },
        },
    }
    for rule in RULES:
        validations = find_node(root, rule.path).setdefault("x-kubernetes-validations", [])
        validations.append({"rule": rule.rule, "message": rule.message})
    return root


class _Dumper(yaml.SafeDumper):
    """Writes YAML as people do: short leaves on one line, long texts folded, no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        # Equal parts written out twice are easier to review than anchors.
        return True


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = ">" if len(value) > 80 and " " in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _represent_text)


def render() -> str:
    """Return the CustomResourceDefinition as YAML: the same text for the same models."""
    # Not sorted: fields stay in the order in which the models explain them.
    # None: a leaf stands on one line; a third of the file would be indentation otherwise.
    body: str = yaml.dump(
        build_document(),
        Dumper=_Dumper,
        default_flow_style=None,
        sort_keys=False,
        width=140,
        allow_unicode=True,
    )
    return HEADER + body


def main(arguments: list[str] | None = None) -> int:
    """Print, write or check the CRD; return 1 if the checked file differs."""
    parser = argparse.ArgumentParser(prog="python -m icdc_api.crd", description="prints the CRD")
    action = parser.add_mutually_exclusive_group()
    for name, text in (("--write", "write it to FILE"), ("--check", "fail when FILE differs")):
        action.add_argument(
            name,
            metavar="FILE",
            type=Path,
            nargs="?",
            const=COMMITTED,
            help=f"{text}; default: the committed one",
        )
    options = parser.parse_args(arguments)
    if options.write:
        options.write.write_text(render(), encoding="utf-8")
    elif options.check:
        text = options.check.read_text(encoding="utf-8") if options.check.exists() else ""
        if text != render():
            sys.stderr.write(f"{options.check} differs from the models: run `make crds`\n")
            return 1
    else:
        sys.stdout.write(render())
    return 0
