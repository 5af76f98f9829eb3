"""What the mechanism that takes guards out can be believed: it finds nothing by mistake."""

import pytest

from icdc_testing import ROOT
from icdc_testing.mutants.edits import Edit, StaleEditError
from icdc_testing.mutants.source_tree import SourceTree
from icdc_testing.mutants.trying import ChildError, run_tests

pytestmark = pytest.mark.unit

STATE = "sparkapps/icdc_spark/protocol/state_document.py"
TEST = (
    "tests/unit/icdc_spark/protocol/test_state.py::test_only_a_newer_run_of_the_pipeline_takes_over"
)
LOWER_EPOCH = "if owner.epoch <= self.owner.epoch and not same_run:"


def test_a_guard_that_is_taken_out_is_found_and_the_copy_is_whole_again(
    source_tree: SourceTree,
) -> None:
    outcome = run_tests(source_tree, [Edit(STATE, LOWER_EPOCH, "if False:")], [TEST])
    assert outcome.failed
    assert not outcome.broken, outcome.output
    assert (source_tree.folder / STATE).read_bytes() == (ROOT / STATE).read_bytes()
    untouched = run_tests(source_tree, [], [TEST])
    assert untouched.passed, untouched.output
    assert not untouched.failed
    assert not untouched.broken


@pytest.mark.parametrize(
    ("new", "way"),
    [
        ("import no_such_module\n        if False:", "ModuleNotFoundError"),
        ("if no_such_name:", "NameError"),
        ("if owner.no_such_field:", "AttributeError"),
    ],
)
def test_a_copy_that_does_not_run_finds_nothing(
    source_tree: SourceTree, new: str, way: str
) -> None:
    outcome = run_tests(source_tree, [Edit(STATE, LOWER_EPOCH, new)], [TEST])
    assert not outcome.failed
    assert [ending for ending in outcome.broken.values() if way in ending], outcome.output


def test_a_copy_that_cannot_be_imported_finds_nothing(source_tree: SourceTree) -> None:
    edit = Edit(STATE, "from typing import Any, Self", "from no_such_module import Any, Self")
    outcome = run_tests(source_tree, [edit], [TEST])
    assert set(outcome.broken.values()) == {"collect"}, outcome.output
    assert not outcome.failed


def test_a_test_that_does_not_exist_is_refused(source_tree: SourceTree) -> None:
    with pytest.raises(ChildError):
        run_tests(source_tree, [], [f"{TEST}_missing"])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("no such text", "", "holds 0 times"),
        ("def ", "", r"holds \d\d times"),
        (LOWER_EPOCH, "if:", "is no Python"),
    ],
)
def test_an_edit_that_does_not_fit_any_more_names_its_file(
    source_tree: SourceTree, old: str, new: str, says: str
) -> None:
    with (
        pytest.raises(StaleEditError, match=f"{STATE} {says}"),
        source_tree.hold_edits([Edit(STATE, old, new)]),
    ):
        pass
