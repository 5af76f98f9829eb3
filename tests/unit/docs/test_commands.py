"""Every command that a page shows or mentions can be typed as it stands there.

Here those of icdc, make and pip, by their real parsers and files. What kubectl, Helm and crane take
is in `tests/api/charts/test_page_commands.py`, as a cluster has to be asked.
"""

import argparse
import re
import tomllib
from collections.abc import Iterator

import pytest

from icdc_cli.main import build_parser
from icdc_testing import ROOT
from icdc_testing.user_programs import pages

pytestmark = pytest.mark.unit

BY_KUBECTL_AND_HELM = (
    "tests/api/charts/test_page_commands.py::test_a_command_of_kubectl_is_carried_out"
)
PROGRAMS = {
    "icdc": "tests/unit/docs/test_commands.py::test_a_command_of_icdc_parses",
    "make": "tests/unit/docs/test_commands.py::test_a_target_of_make_takes_its_variables",
    "python3": "tests/unit/docs/test_commands.py::test_pip_is_asked_for_an_extra_that_exists",
    "kubectl": BY_KUBECTL_AND_HELM,
    "helm": "tests/api/charts/test_page_commands.py::test_options_are_those_of_the_program",
    "crane": "tests/api/charts/test_release.py::test_a_stranger_checks_files_images_and_chart",
    "cosign": "tests/api/charts/test_release.py::test_a_stranger_checks_signatures",
}
"""The test that checks the commands of a program."""
CURLS = {
    "docs/opensearch-role.md": "tests/spark/secure/test_role.py::"
    "test_the_commands_of_the_page_make_the_user_and_its_role",
    "docs/uninstalling.md": "tests/spark/pipeline/runs/test_deletion.py::"
    "test_a_pipeline_that_is_created_again_and_deleted_leaves_what_the_page_says",
}
"""The test that types the requests of a page."""
SHELL = frozenset({"cmp", "export", "grep", "mkdir", "read", "sha256sum", "true"})
"""Of every Linux: nothing of ours is in their arguments."""
TYPED = pages.list_typed()
MENTIONED = [
    (page.relative_to(ROOT).as_posix(), words)
    for page in pages.list_pages()
    if page != pages.HISTORY
    for words in pages.list_mentioned(page)
]


def select(
    commands: list[tuple[str, list[str]]], program: str
) -> list[tuple[str, tuple[str, ...]]]:
    """Return the page and the arguments of each command of a program, each once."""
    return sorted({(page, tuple(words[1:])) for page, words in commands if words[0] == program})


@pytest.mark.parametrize(("page", "words"), TYPED)
def test_a_program_is_one_that_is_checked(page: str, words: list[str]) -> None:
    program = words[0]
    test = CURLS.get(page) if program == "curl" else PROGRAMS.get(program)
    assert test or program in SHELL, "say in PROGRAMS which test checks it"
    if test:
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize(("page", "words"), select(TYPED, "icdc"))
def test_a_command_of_icdc_parses(page: str, words: tuple[str, ...]) -> None:
    assert build_parser().parse_args(words).command, page


def find_parsers(words: tuple[str, ...]) -> Iterator[tuple[argparse.ArgumentParser, list[str]]]:
    """Yield the parser of a mentioned command with what follows; words in turn give several."""
    yield from _descend(build_parser(), list(words))


def _descend(
    parser: argparse.ArgumentParser, words: list[str]
) -> Iterator[tuple[argparse.ArgumentParser, list[str]]]:
    below = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    if not below or not words or words[0].startswith("-"):
        yield parser, words
        return
    for word in words[0].split(","):
        assert word in below[0].choices, f"{parser.prog} has no command {word}"
        yield from _descend(below[0].choices[word], words[1:])


@pytest.mark.parametrize(("page", "words"), select(MENTIONED, "icdc"))
def test_a_mentioned_command_of_icdc_exists_with_its_options(
    page: str, words: tuple[str, ...]
) -> None:
    for parser, rest in find_parsers(words):
        options = [word.partition("=")[0] for word in rest if re.match(r"-\S", word)]
        assert set(options) <= parser._option_string_actions.keys(), (page, parser.prog)


@pytest.mark.parametrize(("page", "words"), [*select(TYPED, "make"), *select(MENTIONED, "make")])
def test_a_target_of_make_takes_its_variables(page: str, words: tuple[str, ...]) -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    target, *given = words
    assert re.search(rf"^{target}:", text, re.MULTILINE), page
    for variable in (word.partition("=")[0] for word in given if "=" in word):
        assert re.search(rf"\$\({variable}\)|call TYPED,{variable}\)", text), (page, variable)


@pytest.mark.parametrize(("page", "words"), select(TYPED, "python3"))
def test_pip_is_asked_for_an_extra_that_exists(page: str, words: tuple[str, ...]) -> None:
    *pip, package = words
    assert pip == ["-m", "pip", "install"], page
    named = re.search(r"\[([\w,]+)\]$", package)
    assert named
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(named[1].split(",")) <= project["optional-dependencies"].keys()


@pytest.mark.parametrize(
    ("script", "commands"),
    [
        ("a b  # c", [["a", "b"]]),
        ("a \\\n  b 'c d'", [["a", "b", "c d"]]),
        ("x=1 a | b && c || d; e", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("x=1\nexport Y=2", [["export", "Y=2"]]),
        ("a > b < c", [["a"]]),
        (
            'a | while read k; do\n  b "$k" </dev/null\ndone | c',
            [["a"], ["read", "k"], ["b", "$k"], ["c"]],
        ),
    ],
)
def test_a_script_is_split_into_its_commands(script: str, commands: list[list[str]]) -> None:
    assert pages.split_commands(script) == commands
