"""The pages of the fields have every field, with the default that the API server fills in."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

import fields_page
from icdc_api.crd.generator import build_root_schema

pytestmark = pytest.mark.unit

ROOT = build_root_schema()
ROW = re.compile(r'^\| <a id="([^"]+)"></a>(.*) \|$', re.MULTILINE)
ROWS = {
    path: re.split(r" (?<!\\)\| ", cells)
    for page in fields_page.PAGES
    for path, cells in ROW.findall(fields_page.render_page(page))
}


def list_fields(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all fields below a node with their paths, whatever lists and maps they are in."""
    for name, child in node.get("properties", {}).items():
        yield f"{path}.{name}", child
        yield from list_fields(child, f"{path}.{name}")
    for key, ending in (("items", "[]"), ("additionalProperties", "{}")):
        if key in node:
            yield from list_fields(node[key], f"{path}{ending}")


FIELDS = {
    path: node
    for part in ("spec", "status")
    for path, node in list_fields(ROOT["properties"][part], part)
}


def test_every_field_has_a_row_or_is_in_an_object_whose_row_leads_to_the_same_fields() -> None:
    shown = {
        (path.rpartition(".")[2], FIELDS[path]["description"]) for path in ROWS.keys() & FIELDS
    }
    assert len(shown) > 100
    for path, node in FIELDS.items():
        assert path in ROWS or (path.rpartition(".")[2], node["description"]) in shown, path


def test_a_default_is_the_one_that_the_api_server_fills_in() -> None:
    with_default = {
        path: node["default"]
        for path, node in FIELDS.items()
        if path in ROWS and not isinstance(node.get("default", {}), dict)
    }
    assert len(with_default) > 30
    for path, default in with_default.items():
        wanted = str(default).lower() if isinstance(default, bool) else str(default)
        assert re.match(rf"{wanted}\b", ROWS[path][2]), path


@pytest.mark.parametrize(
    ("path", "cells"),
    [
        ("spec.retry.maxSeconds", ["whole number, 1 to 86400", "600"]),
        ("spec.sink", ["object", "required"]),
        ("spec.sink.opensearch.tls.caFrom", ["object", "those of the image"]),
        ("spec.tables[].columns", ["list of 1 to 1000: text, 1 to 256 characters", "all"]),
        ("spec.tables[].fields[].expression", ["text, 1 to 4096 characters", ""]),
        ("spec.spark.driver.memory", ["text: `^[1-9][0-9]{0,8}[kKmMgGtT]$`", "1g"]),
    ],
)
def test_type_and_default_stand_in_columns(path: str, cells: list[str]) -> None:
    assert ROWS[path][1:3] == cells


def test_an_object_that_occurs_twice_is_shown_once_and_linked() -> None:
    assert ROWS["spec.tables[].catalog"][0] == "[`catalog`](#speccatalog)"
    assert "spec.tables[].catalog.name" not in ROWS


def test_what_markdown_would_read_otherwise_is_escaped() -> None:
    text = ROWS["spec.spark.conf"][3]
    assert "spark.sql.\\*" in text
    assert "[docs/spark-properties.md](../spark-properties.md)" in text
    assert "`<index>-000001`" in ROWS["spec.tables[].index"][3]
    assert "(k\\|M\\|G" in ROWS["spec.spark.localVolumes[].ephemeral.size"][1]
