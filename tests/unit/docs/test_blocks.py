"""Each block of each page is checked by a test, which this table names; so none is left out.

What is typed is in `test_commands`, a table of its own.
"""

import re
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from icdc_api.spec.spark import Spark
from icdc_testing import ROOT
from icdc_testing.user_programs import pages
from icdc_testing.user_programs.pages import Block

pytestmark = pytest.mark.unit


@dataclass(frozen=True)
class Checked:
    """Blocks, and the test that checks them."""

    page: str
    """The page's path; `*` for every page."""
    info: str
    """What stands behind the fence, as a regular expression."""
    test: str
    """The file, and the function in it."""

    def fits(self, block: Block) -> bool:
        return self.page in ("*", block.page) and bool(re.fullmatch(self.info, block.info))


HERE = "tests/unit/docs/test_blocks.py"
PIPELINES = "tests/unit/docs/test_pages.py::test_every_pipeline_that_a_page_shows_is_valid"
SHAPING = (
    "tests/spark/source/test_shaping_page.py::test_every_recipe_gives_the_document_that_is_shown"
)
SEARCHES = (
    "tests/spark/plugins/test_search_mappings.py::test_every_recipe_with_a_search_is_found_by_it"
)
GITOPS = "tests/api/charts/test_gitops.py::test_flux_and_argo_cd_agree_with_kstatus"
CONVERTED = (
    "tests/unit/icdc_cli/data_prepper/test_convert.py"
    "::test_the_example_of_the_page_gives_the_pipeline_of_the_page"
)
QUICK = (
    "tests/cluster/test_quick_start.py"
    "::test_the_quick_start_is_walked_from_its_page_and_leaves_nothing"
)
DELETION = (
    "tests/spark/pipeline/runs/test_deletion.py"
    "::test_a_pipeline_that_is_created_again_and_deleted_leaves_what_the_page_says"
)
CHECKED = [
    Checked(
        "*", "sh( .*)?", "tests/unit/docs/test_commands.py::test_a_program_is_one_that_is_checked"
    ),
    Checked("*", "yaml( cluster)?", PIPELINES),
    Checked(
        "README.md",
        "text get",
        "tests/api/process/test_readme.py"
        "::test_kubectl_shows_the_readmes_pipeline_as_the_readme_does",
    ),
    Checked(
        "README.md",
        "text verify",
        "tests/spark/cli/test_commands.py"
        "::test_the_readmes_commands_plan_run_and_verify_the_readmes_pipeline",
    ),
    Checked(
        "charts/iceberg-cdc-pipelines/README.md",
        "yaml values",
        "tests/api/charts/test_server.py::test_the_life_of_a_release",
    ),
    Checked(
        "docs/catalogs.md",
        "yaml .*",
        "tests/api/crd/test_catalog_examples.py"
        "::test_every_example_is_stored_as_it_stands_in_the_page",
    ),
    Checked(
        "docs/catalogs.md",
        "dockerfile",
        f"{HERE}::test_an_image_of_your_own_is_made_from_an_image_of_a_release",
    ),
    Checked("docs/from-data-prepper.md", "yaml data-prepper", CONVERTED),
    Checked("docs/gitops.md", "yaml flux|lua argocd", GITOPS),
    Checked(
        "docs/networks.md",
        "yaml values",
        "tests/api/charts/test_page_commands.py::test_values_that_a_page_shows_fit_the_chart",
    ),
    Checked("docs/networks.md", "yaml part", f"{HERE}::test_a_part_of_a_pipeline_fits_its_field"),
    Checked("docs/quick-start.md", "text", QUICK),
    Checked(
        "docs/reference/commands.md",
        "text",
        "tests/unit/tools/test_reference_pages.py::test_a_command_is_shown_with_its_arguments",
    ),
    Checked("docs/shaping-documents.md", "sql|json|yaml fields|yaml table", SHAPING),
    Checked("docs/shaping-documents.md", "json search", SEARCHES),
    Checked("docs/uninstalling.md", "sql tags", DELETION),
]
DRAWN = {"docs/architecture.md", "tests/support/README.md"}
"""Pages with drawings, in blocks without a language."""
BLOCKS = [block for page in pages.list_pages() for block in pages.read_blocks(page)]


def name_block(block: Block) -> str:
    return f"{block.page} {block.info}"


@pytest.mark.parametrize("block", BLOCKS, ids=name_block)
def test_a_block_of_a_page_is_checked_by_one_test(block: Block) -> None:
    tests = [checked for checked in CHECKED if checked.fits(block)]
    drawn = not block.info and block.page in DRAWN
    assert len(tests) == (0 if drawn else 1), "say in CHECKED which test checks it"


@pytest.mark.parametrize("checked", CHECKED, ids=lambda checked: f"{checked.page} {checked.info}")
def test_a_test_of_blocks_exists_and_has_some(checked: Checked) -> None:
    path, _, name = checked.test.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")
    assert any(checked.fits(block) for block in BLOCKS)


def find(page: str, info: str) -> str:
    (text,) = pages.list_blocks(ROOT / page, info)
    return text


def test_an_image_of_your_own_is_made_from_an_image_of_a_release() -> None:
    made = find("docs/catalogs.md", "dockerfile").splitlines()
    releasing = ROOT / "docs" / "releasing.md"
    (export,) = (line for line in pages.list_blocks(releasing, "sh") if line.startswith("export"))
    given = dict(word.split("=") for word in export.split()[1:])
    (named,) = re.findall(
        r"^crane digest (\S+/spark:\S+)$", find("docs/releasing.md", "sh check"), re.MULTILINE
    )
    for name, value in given.items():
        named = named.replace(f"${name}", value)
    assert made[0] == f"FROM {named}"
    jars = "/opt/spark/jars/"
    assert made[1].endswith(f" {jars}")
    assert jars.rstrip("/") in (ROOT / "docs" / "images.md").read_text(encoding="utf-8")


def test_a_part_of_a_pipeline_fits_its_field() -> None:
    part: dict[str, Any] = yaml.safe_load(find("docs/networks.md", "yaml part"))
    spark = Spark.model_validate({**part, "executor": part["driver"]}, by_alias=True, by_name=False)
    assert spark.driver.template is not None
    (container,) = part["driver"]["template"]["spec"]["containers"]
    assert " " not in container["env"][1]["value"]
