"""The shape of texts that can be counted by hand."""

from pathlib import Path

import pytest

import shape

pytestmark = pytest.mark.unit

TEXT = '''"""Plans what to read."""


class Plan:
    def add(self, first, second, third) -> int:
        def inner():
            import math

        try:
            return inner()
        except (ValueError, Exception):
            return 0


@pytest.mark.parametrize("size", [1])
def test_sizes(size, monkeypatch) -> None:
    try:
        from unittest import mock
    except ImportError:
        pass
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds" / "plan.py").write_text(TEXT)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "plan.py").write_text("x = 1\n")
    (tmp_path / "setup.py").write_text("x = 1\n")
    return tmp_path


def test_the_shape_of_a_file_is_counted(root: Path) -> None:
    columns = shape.measure_columns(root, sorted(root.rglob("*.py")))
    figures = dict(columns["all"].list_rows())
    assert figures == {
        "files, lines": "1, 20",
        "file: median/p90/max lines": "20/20/20",
        "function: median/p90/max lines": "5/8/8",
        "modules with a docstring": "1/1",
        "documented fields": "0/0",
        "return annotations": "2/3",
        "broad excepts": "1/2",
        # That of the inner function is not one of the outer function as well.
        "imports within functions": "2",
        "more than 3 positional parameters": "1",
        "files of at most 40 lines": "1",
        "class names that stand twice": "0",
        "tests, parametrized": "1, 1",
        "tests that patch": "2",
    }
    assert dict(columns["tests"].list_rows())["modules with a docstring"] == "0/1"


@pytest.mark.parametrize(
    ("body", "share"),
    [
        ('class Plan:\n    size: int\n    """Bytes to read."""\n', "1/1"),
        ("class Plan:\n    # Bytes to read.\n    size: int\n", "1/1"),
        ("class Plan:\n    size: int  # bytes to read\n", "1/1"),
        ("class Plan:\n    size: int\n    name: str\n", "0/2"),
        ('class Plan:\n    size: int\n    name: str\n    """Of the table."""\n', "1/2"),
        ('class Kind(StrEnum):\n    SMALL = "small"\n', "0/1"),
        ('class Kind(StrEnum):\n    SMALL = "small"\n    """At most 32 MB."""\n', "1/1"),
        # A constant that belongs to the class, and a variable of a method.
        ("class Plan:\n    LIMIT = 3\n\n    def f(self):\n        size: int = 3\n", "0/0"),
    ],
)
def test_a_field_is_documented_by_text_of_its_own(tmp_path: Path, body: str, share: str) -> None:
    file = tmp_path / "plan.py"
    file.write_text(body)
    figures = shape.Shape()
    figures.measure(file)
    assert dict(figures.list_rows())["documented fields"] == share


def test_a_file_outside_of_product_and_tests_is_in_no_column(root: Path) -> None:
    columns = shape.measure_columns(root, sorted(root.rglob("*.py")))
    assert sum(len(columns[name].files) for name in ("crds", "tests")) == 2
    assert sum(len(columns[name].files) for name in ("operator", "sparkapps", "tools")) == 0


def test_a_folder_without_files_has_figures_too() -> None:
    table = shape.format_table({"tools": shape.Shape()}).splitlines()
    assert table[0].split() == ["tools"]
    assert table[1].split() == ["files,", "lines", "0,", "0"]
