"""Installs the Debian packages of programs that tests need, or says what is left out.

    root on Debian                     installed, once
    elsewhere                          the tests are skipped, and the end of the run says LEFT OUT
    elsewhere, ICDC_REQUIRE_ALL=1      the tests fail

Knows nothing of what the programs do.
"""

import os
import shutil
import subprocess
import sys

import pytest

from icdc_testing import ROOT

_INSTALLER = ROOT / "tools" / "images" / "host_packages.py"


def require_programs(*names: str) -> None:
    """Return once each program is on PATH; where it cannot be, skip the test that asks, or fail it.

    A program is looked for first, since other systems have it in a package of another name.
    """
    missing = [name for name in names if shutil.which(name) is None]
    if not missing:
        return
    problem = install_packages(*missing)
    if not problem:
        return
    assert not os.environ.get("ICDC_REQUIRE_ALL"), problem
    pytest.skip(f"there is no {' and no '.join(missing)} here: {problem}")


def install_packages(*names: str) -> str:
    """Install what is missing of these packages; return why that is impossible, or nothing."""
    command = [sys.executable, str(_INSTALLER), *names]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    return done.stderr.strip() if done.returncode else ""
