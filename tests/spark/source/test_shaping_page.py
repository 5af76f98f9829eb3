"""The recipes of docs/shaping-documents.md give the documents that the page shows."""

import json
import re
from pathlib import Path

import pytest
import yaml

from icdc_api.spec.tables import Table
from icdc_testing.lake.lake import Lake
from icdc_testing.tables.fields import parse_fields

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).parents[3] / "docs" / "shaping-documents.md").read_text(encoding="utf-8")
RECIPES = re.findall(r"```yaml fields\n(.*?)```\n```json\n(.*?)```", PAGE, re.DOTALL)

ROUTED = re.findall(r"```yaml table\n(.*?)```\n```json\n(.*?)```", PAGE, re.DOTALL)


def test_every_recipe_gives_the_document_that_is_shown(lake: Lake) -> None:
    name = lake.choose_name()
    create, insert = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    lake.sql(create.format(t=f"lake.{name}") + " using iceberg")
    lake.sql(insert.format(t=f"lake.{name}"))
    assert len(RECIPES) >= 9
    assert PAGE.count("```yaml fields") == len(RECIPES)
    for entries, shown in RECIPES:
        wanted = parse_fields(*yaml.safe_load(entries))
        (batch,) = lake.export(name, fields=wanted, identifier_columns=("order_id",))
        assert [json.loads(op.doc or "") for op in batch.ops] == [json.loads(shown)], entries
    assert PAGE.count("```yaml table") == len(ROUTED) == 1
    for entry, shown in ROUTED:
        table = Table.model_validate({"name": "shop.orders", **yaml.safe_load(entry)})
        key, routing = table.identifier_columns or (), table.routing or ()
        (batch,) = lake.export(name, identifier_columns=key, routing=routing)
        made = [{"_id": op.id, "_routing": op.routing} for op in batch.ops]
        assert made == [json.loads(shown)], entry
