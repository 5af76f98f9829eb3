"""Which cases run where only a share is asked for."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from icdc_testing.mutants.guards import LISTED
from icdc_testing.waiting.seeds import choose_cases

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
GUARDS = ROOT / "tests" / "unit" / "guards" / "test_guards.py"
CASES = [f"case {number}" for number in range(10)]


@pytest.fixture(autouse=True)
def seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICDC_TEST_SEED", "1")
    monkeypatch.delenv("ICDC_SHARE", raising=False)


def test_all_cases_run_unless_a_share_is_asked_for() -> None:
    assert choose_cases("all", CASES) == CASES


@pytest.mark.parametrize(("share", "of", "count"), [("0.4", 10, 4), ("0.4", 2, 1), ("0.01", 3, 1)])
def test_a_share_has_cases_in_their_order_and_one_at_least(
    monkeypatch: pytest.MonkeyPatch, share: str, of: int, count: int
) -> None:
    monkeypatch.setenv("ICDC_SHARE", share)
    chosen = choose_cases("some", CASES[:of])
    assert len(chosen) == count
    assert chosen == sorted(chosen)
    assert choose_cases("some", CASES[:of]) == chosen


def test_every_case_is_chosen_by_some_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICDC_SHARE", "0.2")
    chosen = set()
    for number in range(50):
        monkeypatch.setenv("ICDC_TEST_SEED", str(number))
        chosen |= set(choose_cases("seeds", CASES))
    assert chosen == set(CASES)


@pytest.mark.parametrize("share", ["0", "-1", "1.5"])
def test_a_share_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, share: str) -> None:
    monkeypatch.setenv("ICDC_SHARE", share)
    with pytest.raises(AssertionError, match=f"ICDC_SHARE={float(share)}: allowed"):
        choose_cases("none", CASES)


def test_only_cases_of_tests_that_are_marked_are_left_out_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ICDC_SHARE", "0.4")
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", str(GUARDS)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    collected = Counter(re.findall(r"::(\w+)", done.stdout))
    marked = collected.pop("test_a_guard_that_is_taken_out_is_missed")
    assert marked == round(0.4 * sum(guard.is_cheap for guard in LISTED))
    assert collected["test_every_guard_has_a_name_of_its_own"] == 1
    assert re.search(r"\d+/\d+ tests collected \(\d+ deselected\)", done.stdout)
    assert (
        "LEFT OUT: of the cases of each test marked sampled, all but a share of 0.4" in done.stdout
    )
