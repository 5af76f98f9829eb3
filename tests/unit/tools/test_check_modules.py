"""Modules of one name: which are refused."""

import pytest

import check_modules

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("paths", "refused"),
    [
        (["operator/icdc_cli/exits.py", "operator/icdc_cli/local/exits.py"], 1),
        (["tools/checks/prose.py", "tools/site/prose.py"], 1),
        (["operator/icdc_cli/main.py", "operator/icdc_operator/main.py"], 0),
        (["operator/icdc_cli/__init__.py", "operator/icdc_cli/local/__init__.py"], 0),
        (["tests/unit/tools/world.py", "tests/unit/charts/world.py"], 0),
    ],
)
def test_a_module_name_stands_once_in_a_package(paths: list[str], refused: int) -> None:
    assert len(list(check_modules.find_repeated_modules(paths))) == refused


def test_what_is_refused_is_named_with_both_folders() -> None:
    paths = ["tools/checks/prose.py", "tools/site/prose.py"]
    assert list(check_modules.find_repeated_modules(paths)) == [
        "tools: prose.py stands twice: in tools/checks and in tools/site"
    ]
