"""A pytest plugin of the child process: writes how each test ended, and whose code it imported."""

import importlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

_PACKAGES = ("icdc_api", "icdc_operator", "icdc_cli", "icdc_spark")
_ENDINGS: dict[str, list[str]] = {}


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse to run tests of any other copy than the one that was asked for."""
    tree = os.environ["ICDC_MUTANT_TREE"]
    for name in _PACKAGES:
        path = str(next(iter(importlib.import_module(name).__path__)))
        if not path.startswith(tree + os.sep):
            pytest.exit(f"{name} comes from {path}, not from {tree}", returncode=3)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Note the classes of what each failed phase of a test raised; `passed` for its call."""
    report = yield
    if report.failed and call.excinfo is not None:
        classes = [kind.__name__ for kind in call.excinfo.type.__mro__]
        _ENDINGS[item.nodeid] = [report.when, *classes]
    elif report.when == "call" and report.passed:
        _ENDINGS[item.nodeid] = ["passed"]
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note what could not be collected."""
    if report.failed:
        _ENDINGS[report.nodeid] = ["collect"]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write all of it."""
    Path(os.environ["ICDC_MUTANT_OUTCOMES"]).write_text(json.dumps(_ENDINGS), encoding="utf-8")
