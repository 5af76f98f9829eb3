"""Builds the pages as a site, in an environment of its own that lies outside of the checkout.

MkDocs builds it strictly: a link or an anchor that leads nowhere, and a page without a place in the
navigation, end the build. After that no page may load anything from another site, so that it is
whole where there is no network. Only the search needs a web server, of any kind.

    build_site.py                                        .icdc/site
    build_site.py --folder out --source https://git.example/lake/icdc/blob/main
    build_site.py --folder out --versioned               out/0.1.0, beside other versions
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

import site_versions
from icdc_api import __version__
from icdc_api.errors import IcdcError
from icdc_cli.embedded import jars, programs

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "tools" / "locks" / "site.lock"
_INSTALL_SECONDS = 900
"""A bound for a package index that sends too slowly to end."""
_FOREIGN = re.compile(
    r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"?((?:https?:)?//[^\">\s]+)"
)


def install_tools() -> Path:
    """Return the Python of an environment with what the lock has; installed first if need be."""
    # With the version of Python: packages that were built for another one may not load.
    key = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()[:16]
    folder = jars.choose_cache_dir() / "site" / key
    python = folder / "bin" / "python"
    complete = folder / ".installed"
    with jars.hold_lock(folder.with_name(".lock")):
        if not complete.is_file():
            venv.create(folder, with_pip=True, clear=True)
            pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
            wanted = ("--require-hashes", "-r", str(LOCK))
            programs.run_program(
                [str(python), *pip, *wanted], name="pip, for the site,", seconds=_INSTALL_SECONDS
            )
            # Last: an installation that was cut off is begun anew the next time.
            complete.touch()
    return python


def build(python: Path, folder: Path, source: str, *, versioned: bool) -> int:
    """Write the site into the folder; return the exit code of MkDocs.

    `versioned`: with a menu of the versions that lie beside that folder.
    """
    # Not by `run_program`, which shows the last lines alone: every warning is to be mended.
    # Not --quiet: what it hides does not count as a warning, and strict would mean nothing.
    command = ("-m", "mkdocs", "build", "--strict", "--clean")
    configuration = Path(__file__).parent / "mkdocs.yml"
    paths = ("--config-file", configuration, "--site-dir", folder.resolve())
    # What the theme's makers say of its successor is no warning about these pages.
    variables = {"ICDC_SITE_SOURCE": source, "NO_MKDOCS_2_WARNING": "1"}
    if versioned:
        variables["ICDC_SITE_VERSIONED"] = "1"
    # PYTHONPATH names packages of another environment.
    others = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, *command, *paths], env={**others, **variables}, stderr=subprocess.PIPE, text=True
    )
    if done.returncode:
        sys.stderr.write(done.stderr)
    return done.returncode


def find_foreign_assets(folder: Path) -> Iterator[str]:
    """Yield a sentence for each file of another site that a page would load."""
    for page in sorted(folder.rglob("*.html")):
        for address in _FOREIGN.findall(page.read_text(encoding="utf-8")):
            yield f"{page.relative_to(folder)} loads {address}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the site; 1 where a page is wrong."""
    parser = argparse.ArgumentParser(description="builds the pages as a site")
    parser.add_argument("--folder", type=Path, default=ROOT / ".icdc" / "site", help="where to")
    parser.add_argument(
        "--source",
        default="",
        metavar="URL",
        help="address below which a git host shows the files of the repository, for links to code",
    )
    parser.add_argument(
        "--versioned",
        action="store_true",
        help="into a folder below that, named as the version; those of other versions stay",
    )
    options = parser.parse_args(arguments)
    folder = options.folder / __version__ if options.versioned else options.folder
    try:
        python = install_tools()
    except IcdcError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return 1
    if build(python, folder, options.source, versioned=options.versioned):
        return 1
    if options.versioned:
        site_versions.write_list(options.folder)
    problems = list(find_foreign_assets(folder))
    sys.stderr.write("".join(f"{problem}\n" for problem in problems))
    if not problems:
        sys.stdout.write(f"the site is in {options.folder}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
