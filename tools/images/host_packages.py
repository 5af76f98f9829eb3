"""Installs the Debian packages that building images, tests and pictures of the pages need.

What a user gains: `make images` and `make test-cluster` stay one command each for root on a fresh
Debian, and name what is missing elsewhere, before a build of minutes and not in the middle of it.
`ensure` does nothing where all are there. It installs what is missing where it may, which is as
root on a system with apt-get; elsewhere it raises BadSpec, which names them.
"""

import os
import shutil
import sys
from collections.abc import Sequence

from icdc_api.errors import BadSpec, IcdcError, Submission
from icdc_cli.embedded import jars, programs

_INSTALL_SECONDS = 900
"""For one call of apt-get: a bound for a mirror that sends too slowly to end."""


def ensure(names: Sequence[str]) -> None:
    """Return once all packages of these Debian names are installed.

    BadSpec: they are not, and may not be installed here.

    Submission: apt-get could not install them.
    """
    # Asked of dpkg and not of PATH: a package such as util-linux has no program of its name.
    missing = [name for name in names if not _is_installed(name)]
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise BadSpec(
            f"These Debian packages are missing: {' '.join(missing)}. Install them, or what your "
            "system has in their place, or run as root on Debian, where they are installed."
        )
    # Tests that run side by side may ask at the same time, and a second apt-get fails at once.
    with jars.hold_lock(jars.choose_cache_dir() / "programs" / ".host-packages.lock"):
        sys.stderr.write(f"installing {' '.join(missing)}\n")
        # Container images ship without package lists, and old lists name packages that were
        # removed.
        _run_apt_get("update", "--quiet")
        _run_apt_get("install", "--quiet", "--yes", "--no-install-recommends", *missing)


def _is_installed(name: str) -> bool:
    query = shutil.which("dpkg-query")
    # Another kind of system: `ensure` then names all of them to a person, who knows what they are
    # called there, though the programs may be present.
    if query is None:
        return False
    command = [query, "--show", "--showformat=${db:Status-Status}", name]
    try:
        shown = programs.run_program(command, name="dpkg-query", seconds=60)
    except Submission:
        # How it says that it does not know the package.
        return False
    # dpkg also knows packages that were removed and left their settings ("config-files").
    return shown == "installed"


def _run_apt_get(*arguments: str) -> None:
    # A question would wait for an answer that nobody gives.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    programs.run_program(
        ["apt-get", *arguments],
        name=f"apt-get {' '.join(arguments)}",
        seconds=_INSTALL_SECONDS,
        env=environment,
    )


def main(names: Sequence[str]) -> int:
    """Install the packages that the arguments name; 1 with what is missing where it may not."""
    try:
        ensure(names)
    except IcdcError as exc:
        sys.stderr.write(f"error: {exc.message}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
