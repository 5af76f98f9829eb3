"""What `icdc preview` prints for people, and which options it refuses."""

import pytest

from icdc_cli import main
from icdc_cli.commands.preview import format_preview

pytestmark = pytest.mark.unit

SHOWN = """\
shop.orders   index orders   snapshot 77
_id 7
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
            "documents": [{"_id": "7", "_source": {"id": 7, "name": "Zoë"}}],
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
