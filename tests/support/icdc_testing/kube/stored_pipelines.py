"""The pipelines of one namespace of an API server, as users and the operator write them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from icdc_api import naming
from icdc_api.crd.loading import load_resource, parse_pipeline
from icdc_api.spec.pipeline import Pipeline
from icdc_testing import ROOT
from icdc_testing.kube.kubectl import Kubectl, Ran

SAMPLES = ROOT / "crds" / "samples"

Resource = dict[str, Any]


def load_sample(name: str) -> Resource:
    """Return a sample by the name of its file, as plain values."""
    return load_resource(SAMPLES / f"{name}.yaml", {})


def load_pipeline(path: Path, env: Mapping[str, str]) -> Pipeline:
    """Return the pipeline in a YAML file as `icdc` loads it; or BadSpec."""
    return parse_pipeline(load_resource(path, env), source=str(path))


def make_minimal(name: str = "shop", **spec: Any) -> Resource:
    """Return the least pipeline, and these fields of its spec."""
    resource = load_sample("minimal")
    resource["metadata"]["name"] = name
    resource["spec"].update(spec)
    return resource


def make_condition(kind: str, status: str, **more: Any) -> Resource:
    """Return a condition with all that it must have."""
    return {
        "type": kind,
        "status": status,
        "reason": "Tested",
        "lastTransitionTime": "2026-03-01T12:00:00Z",
        **more,
    }


class Pipelines:
    """What a test does with pipelines in its namespace."""

    def __init__(self, kubectl: Kubectl, namespace: str) -> None:
        self.kubectl = kubectl
        self.namespace = namespace

    def run(self, *arguments: str, stdin: str = "") -> Ran:
        """Run kubectl in the namespace."""
        return self.kubectl.run("-n", self.namespace, *arguments, stdin=stdin)

    def run_ok(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl in the namespace, which must come through; return what it printed."""
        return self.kubectl.run_ok("-n", self.namespace, *arguments, stdin=stdin)

    def try_to_apply(self, resource: Resource) -> Ran:
        """Apply on the server's side; return how that ended."""
        return self.run("apply", "--server-side", "-f", "-", stdin=json.dumps(resource))

    def apply(self, resource: Resource) -> Resource:
        """Apply on the server's side; return the object as it is then."""
        ran = self.try_to_apply(resource)
        assert ran.code == 0, ran.err
        return self.get(resource["metadata"]["name"])

    def get(self, name: str = "shop") -> Resource:
        """Return the object as it is stored, with who manages which field."""
        shown = self.run_ok("get", naming.CRD_NAME, name, "-o", "json", "--show-managed-fields")
        pipeline: Resource = json.loads(shown)
        return pipeline

    def patch_status(self, status: Resource, name: str = "shop") -> None:
        """Merge into the status through the subresource, as the operator does."""
        how = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
        self.run_ok("patch", naming.CRD_NAME, name, *how)

    def list_names(self, *selection: str) -> list[str]:
        """Return the names of the pipelines that a list shows."""
        listed = json.loads(self.run_ok("get", naming.CRD_NAME, *selection, "-o", "json"))
        return sorted(item["metadata"]["name"] for item in listed["items"])
