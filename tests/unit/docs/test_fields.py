"""Every field of a pipeline, and every value of a chart, that a page names exists."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from icdc_api.crd import generator
from icdc_testing import ROOT
from icdc_testing.kube.charts import files
from icdc_testing.user_programs import pages

pytestmark = pytest.mark.unit

PAGES = [page for page in pages.list_pages() if page != pages.HISTORY]
NAME = re.compile(r"(?<!`)`([a-zA-Z]\w*(?:\[\d*\])?(?:\.[a-zA-Z]\w*(?:\[\d*\])?)+)[^`\n.]*`(?!`)")
ABOVE = ("", "spec.", "spec.sink.opensearch.", "spec.spark.", "status.", "status.tables[].")
"""Where a field may be that is named without all that is above it."""
FILES = ("py", "md", "yaml", "json", "lock", "toml")


@cache
def load_schema() -> dict[str, Any]:
    crd = yaml.load(generator.COMMITTED.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def has_field(path: str) -> bool:
    schema = load_schema()
    for part in path.split("."):
        if "additionalProperties" in schema or "x-kubernetes-preserve-unknown-fields" in schema:
            return True  # a map, or what Kubernetes has the form of
        name, _, index = part.partition("[")
        if name not in schema.get("properties", {}):
            return False
        schema = schema["properties"][name]
        schema = schema["items"] if index else schema
    return True


@cache
def list_values() -> frozenset[str]:
    """Return the paths of all values of all charts, of groups too."""
    found: set[str] = set()

    def walk(group: files.Values, above: str) -> None:
        for name, value in group.items():
            found.add(f"{above}{name}")
            if isinstance(value, dict):
                walk(value, f"{above}{name}.")

    for chart in files.ALL:
        walk(files.read_values(chart), "")
    return frozenset(found)


def list_tops() -> set[str]:
    """Return the names with which a field or a value begins."""
    schema = load_schema()["properties"]
    fields = {*schema["spec"]["properties"], "spec", "status"}
    # Its names are also those of Spark's own properties, which have a page and its test.
    return (fields | {value.partition(".")[0] for value in list_values()}) - {"spark", "namespace"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_field_or_value_that_a_page_names_exists(page: Path) -> None:
    tops = list_tops()
    named = {
        name
        for name in NAME.findall(page.read_text(encoding="utf-8"))
        if re.split(r"[.\[]", name)[0] in tops and name.rpartition(".")[2] not in FILES
    }
    missing = {
        name
        for name in named - list_values()
        if not any(has_field(f"{above}{name}") for above in ABOVE)
    }
    assert missing == set()


def test_a_name_of_nothing_is_noticed() -> None:
    assert has_field("spec.tables[].rowFilter")
    assert not has_field("spec.tables[].rowFilters")
    assert not has_field("spec.nothing.rowFilter")
    assert "limits.activeRuns" in list_values()
    assert "limits.activeRun" not in list_values()
