"""Each guard that can be tried without Spark: taken out, the tests that it names must fail."""

import pytest

from icdc_testing.mutants.guard import Guard, find_blind_tests, is_of
from icdc_testing.mutants.guards import LISTED
from icdc_testing.mutants.source_tree import SourceTree
from icdc_testing.mutants.trying import run_tests

pytestmark = pytest.mark.unit

CHEAP = [guard for guard in LISTED if guard.is_cheap]


def test_every_guard_has_a_name_of_its_own() -> None:
    names = [guard.name for guard in LISTED]
    assert sorted(set(names)) == sorted(names)


def test_the_tests_pass_while_every_guard_is_there(source_tree: SourceTree) -> None:
    tests = sorted({test for guard in CHEAP for test in guard.tests})
    outcome = run_tests(source_tree, [], tests)
    assert not outcome.failed | outcome.broken.keys(), outcome.output
    never = [test for test in tests if not any(is_of(node, test) for node in outcome.passed)]
    assert not never


@pytest.mark.sampled
@pytest.mark.parametrize("guard", CHEAP, ids=lambda guard: guard.name)
def test_a_guard_that_is_taken_out_is_missed(guard: Guard, source_tree: SourceTree) -> None:
    outcome = run_tests(source_tree, guard.edits, guard.tests)
    assert not find_blind_tests(outcome, guard.tests), outcome.output
