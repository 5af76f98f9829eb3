"""Runs tests against a copy of the product with edits, and judges how they ended.

A test finds an edit when it fails as it was written to fail: by an assertion, by an error of the
product that came or did not come. A copy that cannot be imported finds nothing.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from icdc_testing import ROOT, SOURCES
from icdc_testing.mutants.edits import Edit
from icdc_testing.mutants.source_tree import SourceTree

SECONDS = 600.0
"""The longest that the tests of one guard may take."""
_EXPECTED = frozenset({"AssertionError", "Failed", "IcdcError"})
"""Classes of what a test raises that notices something: pytest.raises raises Failed."""


class ChildError(AssertionError):
    """The tests did not run to their end; the text is what the process printed last."""


@dataclass(frozen=True, kw_only=True)
class ProcessOutcome:
    """How the tests of one child process ended, by node id."""

    passed: frozenset[str]
    """Those that passed."""
    failed: frozenset[str]
    """Those that failed as they are written to fail."""
    broken: Mapping[str, str]
    """Those that ended in another way, such as an ImportError, with that way."""
    seconds: float
    """How long the child process took."""
    output: str
    """The end of what it printed."""


def run_tests(tree: SourceTree, edits: Sequence[Edit], tests: Sequence[str]) -> ProcessOutcome:
    """Run pytest on the node ids `tests` in a child process that imports `tree` with `edits`.

    Raises StaleEditError, and ChildError where pytest itself failed, no test ran or time ran out.
    """
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, tree.hold_edits(edits):
        outcomes = Path(folder) / "outcomes.json"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        command += ["-p", "icdc_testing.mutants.pytest_outcomes", "--durations=0", "--tb=short"]
        environment = {**tree.build_environment(), "ICDC_MUTANT_OUTCOMES": str(outcomes)}
        environment["PYTHONPATH"] += f":{SOURCES}"
        try:
            ended = subprocess.run(
                [*command, *tests],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ChildError(f"no end within {SECONDS:.0f} s: {tests}") from error
        endings = json.loads(outcomes.read_text(encoding="utf-8")) if outcomes.exists() else {}
        if ended.returncode not in (0, 1) and "collect" not in [way[0] for way in endings.values()]:
            raise ChildError(f"pytest ended with {ended.returncode}:\n{ended.stdout[-3000:]}")
    return _judge(endings, time.monotonic() - begun, ended.stdout[-3000:])


def _judge(endings: Mapping[str, list[str]], seconds: float, output: str) -> ProcessOutcome:
    if not endings:
        raise ChildError(f"no test ran:\n{output}")
    passed = frozenset(test for test, way in endings.items() if way == ["passed"])
    failed = frozenset(test for test, way in endings.items() if _EXPECTED.intersection(way[1:]))
    broken = {
        test: " ".join(way[:2]) for test, way in endings.items() if test not in passed | failed
    }
    return ProcessOutcome(
        passed=passed, failed=failed, broken=broken, seconds=seconds, output=output
    )
