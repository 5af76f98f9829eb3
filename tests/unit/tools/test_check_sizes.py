"""What is refused for its size: files and functions by lines, folders by entries."""

from pathlib import Path, PurePath

import pytest

import check_sizes

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = 1\n" * 300, None),
        ("x = 1\n" * 301, "301 lines, at most 300"),
        ("def f():\n" + "    x = 1\n" * 49, None),
        ("def f():\n" + "    x = 1\n" * 50, ":1: f has 51 lines, at most 50"),
        ("@a\n@b\nasync def f():\n" + "    x = 1\n" * 50, ":3: f has 51 lines, at most 50"),
    ],
    ids=["a file", "a long file", "a function", "a long function", "without its decorators"],
)
def test_what_cannot_be_read_at_one_go_is_refused(
    text: str, problem: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "module.py"
    file.write_text(text)
    problems = list(check_sizes.find_oversized(file))
    assert len(problems) == (0 if problem is None else 1)
    assert all(line.endswith(problem or "") for line in problems)


def list_crowded(folder: str, *names: str) -> list[str]:
    """Return what is said of a folder with files of these names."""
    return list(check_sizes.find_crowded(PurePath(folder, name) for name in names))


@pytest.mark.parametrize(
    ("folder", "limit"),
    [
        ("sparkapps/icdc_spark", 12),
        ("sparkapps/icdc_spark/diff", 12),
        ("sparkapps", 14),
        ("sparkapps/icdc_spark_tools", 14),
        ("crds/icdc_api", 14),
        ("charts/shop/templates", 14),
        ("tests/support/icdc_testing", 14),
        ("tools/checks", 14),
        (".", 14),
    ],
)
def test_a_folder_with_more_entries_than_its_limit_is_refused(folder: str, limit: int) -> None:
    names = [f"m{number}.py" for number in range(limit + 1)]
    assert list_crowded(folder, *names[1:]) == []
    assert list_crowded(folder, *names) == [f"{folder}: {limit + 1} entries, at most {limit}"]


def test_a_folder_counts_once_in_the_folder_above_it() -> None:
    below = [f"f{number}/{name}.py" for number in range(15) for name in "ab"]
    assert list_crowded("operator", *below[2:]) == []
    assert list_crowded("operator", *below) == ["operator: 15 entries, at most 14"]


@pytest.mark.parametrize("name", ["__init__.py", ".helmignore"])
def test_what_a_tool_prescribes_is_not_counted(name: str) -> None:
    assert list_crowded("crds/icdc_api", *(f"m{number}.py" for number in range(14)), name) == []


@pytest.mark.parametrize("folder", ["crds/samples/bad", "tests/unit/tools", "docs/decisions"])
def test_folders_of_cases_and_pages_are_not_limited(folder: str) -> None:
    assert list_crowded(folder, *(f"case{number}" for number in range(99))) == []
