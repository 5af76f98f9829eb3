"""Names that are refused, and names that look like them and are not."""

import ast

import pytest

import check_words

pytestmark = pytest.mark.unit

GLOSSARY = """
| term | meaning |
|---|---|
| `told` | not in the list |

## Old words
| old | now | but not |
|---|---|---|
| `letters` | `dead_letters` | `dead_letters` |
| `told` | `known`, with its noun | |
| `at work` | `active` | |
"""
WORDS = {
    "letters": frozenset({"dead_letters"}),
    "told": frozenset[str](),
    "at work": frozenset[str](),
}
MODULES = check_words.Modules(
    {
        "operator/icdc_operator/cluster/kube/api_errors.py": ast.parse(
            "class Refusal:\n    pass\n"
        ),
        "operator/icdc_operator/cluster/queue.py": ast.parse("SECONDS = 5\n"),
        "sparkapps/icdc_spark/__init__.py": ast.parse(""),
        "crds/icdc_api/spec/pipeline.py": ast.parse("class Pipeline:\n    pass\n"),
    }
)


def test_the_list_of_old_words_is_read_from_the_glossary() -> None:
    assert check_words.parse_old_words(GLOSSARY) == WORDS


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("told", "told"),
        ("_TOLD", "told"),
        ("rows_told", "told"),
        ("ToldRows", "told"),
        ("letters", "letters"),
        ("new_letters_of_dead_letters", "letters"),
        ("dead_letters", None),
        ("DeadLetters", None),
        ("store_dead_letters", None),
        ("untold", None),
        ("tolds", None),
        ("runs_at_work", "at work"),
        ("at_workers", None),
    ],
)
def test_an_old_word_counts_as_a_whole_part_of_a_name(name: str, word: str | None) -> None:
    assert check_words.find_old_word(name, WORDS) == word


def test_every_name_that_a_file_gives_is_looked_at() -> None:
    tree = ast.parse(
        "class A:\n    def b(self, c):\n        self.d = c\n        for e in c: f = e\n"
    )
    names = {name.text for name in check_words.list_names(tree)}
    assert names == {"A", "b", "self", "c", "d", "e", "f"}


@pytest.mark.parametrize("name", ["Rows", "_Rows"])
def test_a_class_name_that_stands_twice_is_named_with_its_lines(name: str) -> None:
    trees = {"a.py": ast.parse("class Rows: ..."), "b.py": ast.parse(f"\nclass {name}: ...")}
    assert list(check_words.find_repeated_classes(trees)) == [
        "a.py:1: class Rows stands also at b.py:2"
    ]


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("crds/fewer_letters.py", "fewer_letters"),
        ("crds/letters/fewer.py", "letters"),
        ("crds/fewer_dead_letters.py", None),
    ],
)
def test_a_module_or_folder_may_not_be_named_by_an_old_word(path: str, refused: str | None) -> None:
    wanted = f"{path}:1: {refused}: `letters` is an old word, see docs/glossary.md"
    problems = list(check_words.find_old_words({path: ast.parse("")}, WORDS))
    assert problems == ([] if refused is None else [wanted])


@pytest.mark.parametrize(
    ("statement", "refused"),
    [
        ('raise Bug("no run was at work then")', True),
        ('raise Bug("no run was at " "work then")', True),
        ('print(f"the run {name} is At work")', True),
        ('print("told")', False),
        ('print("that workers")', False),
        ('"""A run is at work."""', False),
        ("pass  # at work", False),
    ],
)
def test_an_old_phrase_is_refused_in_texts_that_are_not_prose(
    statement: str, refused: bool
) -> None:
    problems = list(check_words.find_old_phrases({"a.py": ast.parse(statement)}, WORDS))
    wanted = "a.py:1: `at work` is an old phrase, see docs/glossary.md"
    assert problems == ([wanted] if refused else [])


@pytest.mark.parametrize(
    ("name", "refuted"),
    [
        ("cluster.kube.api_errors", False),
        ("icdc_operator.cluster.queue", False),
        ("queue.SECONDS", False),
        ("api_errors.Refusal", False),
        ("api_errors.Refusal.message", False),
        ("cluster.api_errors", True),
        ("queue.MINUTES", True),
        ("icdc_spark.changelog", True),
        # Fields and foreign names, which begin as modules do.
        ("spec.resync.nonce", False),
        ("tables.name", False),
        ("org.apache.iceberg", False),
    ],
)
def test_a_name_in_backticks_exists_or_is_not_ours(name: str, refuted: bool) -> None:
    assert MODULES.refutes(name) is refuted


def test_files_and_modules_in_backticks_are_found_with_their_lines() -> None:
    texts = [(7, "See `docs/glossary.md`.\nNot `docs/gone.md`, nor `cluster.errors`.")]
    assert list(check_words.find_missing_references(texts, MODULES)) == [
        (8, "docs/gone.md"),
        (8, "cluster.errors"),
    ]


def test_of_a_page_only_whole_names_are_taken_for_modules() -> None:
    page = "`queue.maxRuns` in `icdc_spark.changelog`"
    assert check_words.keep_whole_names(page) == "queue.maxRuns in `icdc_spark.changelog`"


def test_comments_and_docstrings_are_read_with_their_lines() -> None:
    text = '"""Top."""\nx = "no"  # why\ny = 1\n"""Of y."""\n'
    assert sorted(check_words.list_prose(text)) == [(1, "Top."), (2, "# why"), (4, "Of y.")]
