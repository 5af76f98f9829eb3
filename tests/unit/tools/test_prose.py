"""The figures of how we write, of texts whose figures can be counted by hand."""

from pathlib import Path

import pytest

import prose
from sources import ROOT

pytestmark = pytest.mark.unit

TEXT = '''"""Plans what to read."""

LIMIT = 3  # three, as a catalog retries twice


def joined(files):
    """Which files are in both."""
    # Sorted, so that a restarted run has the same chunks.
    each = sorted(files)
    return each  # noqa: RET504


class Plan:
    size: int
    """Bytes to read."""

    @property
    def added(self):
        """Return the files of the later snapshot."""
        return self.size
'''


def test_the_figures_of_a_file_are_counted() -> None:
    figures = prose.Figures()
    prose.measure(figures, "plan.py", TEXT)
    assert (figures.lines, figures.code_lines) == (20, 13)
    assert (figures.comment_lines, figures.docstring_lines) == (2, 4)
    assert (figures.functions, figures.documented) == (2, 2)
    assert figures.questions == ["plan.py:6: Which files are in both."]
    assert figures.participles == ["plan.py:6: function joined"]
    assert figures.vague == ["plan.py:9: variable each"]


def test_figures_are_shares_of_what_they_are_about() -> None:
    figures = prose.Figures()
    prose.measure(figures, "plan.py", TEXT)
    questions, participles, vague, comments, text = figures.list_rows()
    assert (questions, participles, vague) == (50, 50, 500)
    assert (round(comments, 1), round(text, 1)) == (15.4, 46.2)


@pytest.mark.parametrize(
    ("name", "participle"),
    [
        ("joined", True),
        ("_joined_rows", True),
        ("told", True),
        ("written_files", True),
        ("join", False),
        ("open_index", False),
        ("feed", False),
        ("is_joined", False),
        ("seconds", False),
    ],
)
def test_a_function_is_named_by_a_participle_or_not(name: str, participle: bool) -> None:
    assert prose.is_participle(name) is participle


def test_a_column_stands_for_each_folder_and_each_anchor() -> None:
    figures = prose.Figures()
    prose.measure(figures, "plan.py", TEXT)
    head, questions, *others = prose.format_table({"crds": figures}).splitlines()
    assert head.split()[:2] == ["crds", "kopf"]
    assert questions.split()[-6:] == ["50.0", "1.0", "0.0", "0.0", "0.0", "2.0"]
    assert len(others) == len(prose.LABELS) - 1


def test_the_tests_have_a_column_of_their_own_and_are_no_part_of_all() -> None:
    tool = Path(prose.__file__)
    columns = prose.measure_columns((), ROOT, [tool, Path(__file__)])
    assert list(columns) == [*prose.FOLDERS, "all", "tests"]
    lines = {name: figures.lines for name, figures in columns.items() if figures.lines}
    ours, tests = (len(path.read_text().splitlines()) for path in (tool, Path(__file__)))
    assert lines == {"tools": ours, "all": ours, "tests": tests}
