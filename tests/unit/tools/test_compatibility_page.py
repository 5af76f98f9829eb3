"""The page of compatibility has the versions that are fixed, and promises nothing untested."""

import re
from pathlib import Path

import pytest

import compatibility_page
from compatibility_page import VersionRow
from icdc_testing.lake.catalogs.page import ASKED, WITHOUT_SERVICE

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
OLDEST = "Kubernetes, the oldest that the charts accept"
CATALOGS = "Catalogs and object stores"
ROWS = [row for rows in compatibility_page.list_tables().values() for row in rows]


def find(what: str) -> VersionRow:
    (row,) = [row for row in ROWS if row.what == what]
    return row


@pytest.mark.parametrize(
    ("what", "file", "said"),
    [
        ("Kubernetes", "README.md", r"tested on\s+Kubernetes (\d+\.\d+) "),
        ("Kubernetes", "charts/iceberg-cdc-operator/README.md", r"newer \(tested: (\d+\.\d+),"),
        (OLDEST, "charts/iceberg-cdc-operator/README.md", r"the API server of (\d+\.\d+)\)"),
        (OLDEST, "charts/iceberg-cdc-operator/Chart.yaml", r'kubeVersion: ">=(\S+)-0"'),
        (OLDEST, "charts/iceberg-cdc-demo/Chart.yaml", r'kubeVersion: ">=(\S+)-0"'),
        (OLDEST, "charts/iceberg-cdc-pipelines/Chart.yaml", r'kubeVersion: ">=(\S+)-0"'),
        ("Helm", "charts/iceberg-cdc-operator/README.md", r"3 or 4 \(tested: (\d+) and 3\)"),
        ("Spark, in the image", "README.md", r"Spark (\d+\.\d+);"),
        ("Spark, in the image", "pyproject.toml", r"\"pyspark==(\S+)\""),
        ("Iceberg", "operator/icdc_cli/embedded/jars.py", r"_ICEBERG = \"(\S+)\""),
    ],
)
def test_what_other_files_say_is_tested_is_the_version_of_the_page(
    what: str, file: str, said: str
) -> None:
    (version,) = re.findall(said, (ROOT / file).read_text(encoding="utf-8"))
    assert f"{find(what).version}.".startswith(f"{version}.")


def test_every_catalog_of_the_examples_is_in_the_table() -> None:
    shown = " ".join(row.what for row in compatibility_page.list_tables()[CATALOGS])
    compared = re.sub(r"[^a-z0-9]", "", shown.lower())
    for label in {*ASKED, *WITHOUT_SERVICE}:
        assert label.removesuffix("-api") in compared


def test_a_version_that_is_not_fixed_is_no_row() -> None:
    with pytest.raises(LookupError, match=r"all\.lock has nothing like"):
        compatibility_page.read_package("not-locked")


def test_a_row_without_a_test_says_so() -> None:
    untested = [row for row in ROWS if not row.tests and not row.remark]
    assert {row.what for row in untested} >= {"Hive metastore", "Amazon OpenSearch Service"}
    page = compatibility_page.render_page()
    assert page.count("| not tested |") == len(untested)
