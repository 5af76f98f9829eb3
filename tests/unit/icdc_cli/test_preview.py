"""What `icdc preview` prints for people, and which options it refuses."""

from pathlib import Path

import pytest

from icdc_api.spec.pipeline import Pipeline
from icdc_cli import main
from icdc_cli.commands.preview import format_preview
from icdc_cli.local import resource

pytestmark = pytest.mark.unit

SHOWN = """\
shop.orders   index orders   snapshot 77
_id a|7   _routing a
{
  "id": 7,
  "name": "Zoë"
}
mapping
{
  "dynamic": "strict"
}

shop.empty   index empty   snapshot -
no row has a document
mapping
{}

shop.gone   index gone   snapshot -
TableNotFound: shop.gone does not exist"""


def test_documents_mappings_and_refusals_are_shown_table_after_table() -> None:
    tables = [
        {
            "name": "shop.orders",
            "index": "orders",
            "snapshotId": "77",
            "documents": [{"_id": "a|7", "_routing": "a", "_source": {"id": 7, "name": "Zoë"}}],
            "mapping": {"dynamic": "strict"},
        },
        {"name": "shop.empty", "index": "empty", "documents": [], "mapping": {}},
        {
            "name": "shop.gone",
            "index": "gone",
            "reason": "TableNotFound",
            "message": "shop.gone does not exist",
        },
    ]
    assert format_preview({"tables": tables}) == SHOWN


@pytest.mark.parametrize("rows", ["0", "-1", "1001", "few"])
def test_rows_that_are_no_number_of_rows_are_refused(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main.main(["preview", "-f", "shop.yaml", f"--rows={rows}"])
    assert left.value.code == 2
    assert f"'{rows}' is not a whole number from 1 to 1000" in capsys.readouterr().err


def test_a_table_that_the_file_does_not_have_is_named_before_anything_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sample = "crds/samples/minimal.yaml"
    assert main.main(["preview", "-f", sample, "--table", "shop.order"]) == 2
    assert "did you mean shop.orders?" in capsys.readouterr().err


def test_a_copy_without_a_target_is_one_that_the_application_takes(tmp_path: Path) -> None:
    """Also where a field of the file has no value, as in YAML that is just being written."""
    text = Path("crds/samples/minimal.yaml").read_text(encoding="utf-8")
    path = tmp_path / "pipeline.yaml"
    path.write_text(text.replace("spec:\n", "spec:\n  changelog:\n", 1), encoding="utf-8")
    local = resource.load(path).without_target()
    assert Pipeline.model_validate(local.request) == local.pipeline
    target = local.pipeline.spec.sink.opensearch
    assert (target.hosts, target.credentials_from) == (("http://opensearch.invalid:9200",), None)
