"""What every test gets: a check that nothing is left running, and a seed for random choices.

Kills and seeds travel with the reports of tests, so that they are printed at the end of the run
also when its tests were spread over several processes. Of cases that are marked `sampled`, CI runs
a share.
"""

import os
import random
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from icdc_api.base import format_count
from icdc_testing.waiting.children import OUTLIVING, list_children
from icdc_testing.waiting.dealing import FolderScheduling, order_tests
from icdc_testing.waiting.seeds import SHARE_VARIABLE, choose_cases, choose_seed

_GRACE_SECONDS = 30.0


def _command(pid: int) -> str:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return "(gone)"
    return raw.replace(b"\0", b" ").decode(errors="replace")[:200] or "(ended, not waited for)"


def pytest_configure() -> None:
    """Let the programs that tests start be interrupted, also where the run is in the background.

    There a shell lets it ignore SIGINT, children inherit that, and a test would wait for their end.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    """Fails a test that leaves a child process or a thread that would keep Python alive.

    What fixtures of a wider scope started is there before the test, so it is not counted.
    """
    before, threads = list_children(), set(threading.enumerate())
    yield
    deadline = time.monotonic() + _GRACE_SECONDS
    while True:
        left = list_children() - before - OUTLIVING
        alive = {t for t in threading.enumerate() if not t.daemon} - threads
        if not left and not alive:
            return
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    commands = [f"{pid} {_command(pid)}" for pid in sorted(left)]
    pytest.fail(f"left running: processes {commands}, threads {sorted(t.name for t in alive)}")


@pytest.fixture
def rng(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> random.Random:
    """Random choices of this test; ICDC_TEST_SEED repeats those of another run."""
    seed, choices = choose_seed(request.node.nodeid)
    record_property("seed", seed)
    return choices


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FolderScheduling | None:
    """Keep also some folders in one process, where tests are dealt by files."""
    return FolderScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out cases of tests that are marked `sampled`, where ICDC_SHARE asks for a share.

    The others begin in the order that keeps all processes at work.
    """
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled"):
            cases[item.nodeid.partition("[")[0]].append(item)
    left_out = set(chain(*cases.values()))
    for test, alike in cases.items():
        left_out.difference_update(choose_cases(test, alike))
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = order_tests(item for item in items if item not in left_out)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Give pytest's log handlers their format back: pyspark's loggers set theirs on any they get.

    pytest attaches them to loggers that do not propagate, as those of failed queries.
    """
    capture = item.config.pluginmanager.get_plugin("logging-plugin")
    assert capture is not None, "pytest captures logs"
    for handler in (capture.caplog_handler, capture.report_handler):
        handler.setFormatter(capture.formatter)
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was left out, kills, what was tried by the hundred or measured, and seeds."""
    share = os.environ.get(SHARE_VARIABLE)
    if share:
        said = f"LEFT OUT: of the cases of each test marked sampled, all but a share of {share}"
        terminalreporter.section(said)
    # pytest itself counts skipped tests, and says why only where it is asked to.
    for reason, count in Counter(_list_reasons(terminalreporter)).items():
        terminalreporter.section(f"LEFT OUT: {format_count(count, 'test')}")
        terminalreporter.write_line(reason)
    kills, seeds = _properties(terminalreporter, "kill"), _properties(terminalreporter, "seed")
    if kills:
        terminalreporter.section(f"{len(kills)} kills")
        for number, kill in enumerate(kills, 1):
            terminalreporter.write_line(f"{number:3} {kill}")
    for tried in _properties(terminalreporter, "tried"):
        terminalreporter.write_line(f"tried {tried}")
    for measured in _properties(terminalreporter, "measured"):
        terminalreporter.write_line(f"measured {measured}")
    for seed, count in Counter(seeds).items():
        terminalreporter.write_line(f"seed {seed}: {count} random tests (ICDC_TEST_SEED={seed})")


def _list_reasons(reporter: pytest.TerminalReporter) -> Iterator[str]:
    """Yield for each skipped test why it was."""
    for report in reporter.stats.get("skipped", []):
        if isinstance(report.longrepr, tuple):
            yield str(report.longrepr[2]).removeprefix("Skipped: ")


def _properties(reporter: pytest.TerminalReporter, wanted: str) -> list[object]:
    """Return the values of a property over all tests that have ended."""
    return [
        value
        for outcome in ("passed", "failed")
        for report in reporter.stats.get(outcome, [])
        if report.when == "call"
        for name, value in report.user_properties
        if name == wanted
    ]
