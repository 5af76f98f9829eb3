"""The operator's image installs what its own lock names; nothing else may be imported there."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit

IMPORT_EVERYTHING = """
import importlib, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(name, name=name.partition(".")[0])

sys.meta_path.insert(0, Absent())
import icdc_operator
for module in pkgutil.walk_packages(icdc_operator.__path__, "icdc_operator."):
    importlib.import_module(module.name)
for kind in ("dynamodb", "glue", "hive", "rest", "sql"):
    importlib.import_module(f"pyiceberg.catalog.{kind}")
"""


def test_the_operator_and_its_readers_do_without_what_their_image_leaves_out() -> None:
    absent = ("numpy", "opensearchpy", "pandas", "pyarrow", "py4j", "pyspark")
    subprocess.run([sys.executable, "-c", IMPORT_EVERYTHING, *absent], check=True, timeout=120)
