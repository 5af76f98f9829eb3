"""Check what must hold in a built image: who runs, what is there, and what is not.

The Dockerfile deletes much of what packages bring. What a user gains by that: images of 239 and
1,167 MB in place of 410 and 1,466. A line of it that goes too far, or a new version
that moves files, does not fail a build; without these checks it would fail a user's run.

Pure: a script that runs in the image tells what is there (inspect_image.py); this judges.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import sbom_formats
from icdc_cli.embedded import jar_lock, jars
from sbom_formats import Component

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "/opt/venv/bin/python"
"""Named in full: a check must use the Python that the entry point uses."""
USER = [185, 185]
"""User and group of the images, the number that Spark's own image has."""
DECOMMISSION = "/opt/decom.sh"
"""Spark's default for what an executor's pod runs before it is ended."""
MAIN = "/opt/iceberg-cdc-operator/main.py"
"""What the operator writes into each SparkApplication (icdc_operator.manifests.pods.pod_paths)."""
OURS = "iceberg-cdc-operator"

MAX_MEGABYTES = {"operator": 300, "spark": 1200}
"""Unpacked. A node fetches them before the first pipeline runs; docs/images.md says what is in
them."""

# Ours whole; of others what is loaded late, by a setting of the user (a catalog, a file format), or
# lies beside what the Dockerfile deletes. A star stands for the package and every module in it.
_MODULES = {
    "operator": (
        "icdc_api.*",
        "icdc_cli.*",
        "icdc_operator.*",
        "kubernetes.aio.config",
        "psycopg2",
        "pyiceberg.catalog.dynamodb",
        "pyiceberg.catalog.glue",
        "pyiceberg.catalog.hive",
        "pyiceberg.catalog.rest",
        "pyiceberg.catalog.sql",
        "pyroaring",
        "zstandard",
    ),
    "spark": (
        "botocore.session",
        "icdc_api.*",
        "icdc_spark.*",
        "opensearchpy",
        "pyarrow.acero",
        "pyarrow.compute",
        "pyarrow.csv",
        "pyarrow.dataset",
        "pyarrow.fs",
        "pyarrow.json",
        "pyarrow.orc",
        "pyarrow.parquet.encryption",
        "pyiceberg.catalog.rest",
        "pyiceberg.io.pyarrow",
    ),
}
_SCRIPTS = ("inside/inspect_spark.py", "inside/inspect_image.py")
_FOLDER = Path(__file__).parent
_EMPTY = {
    "programs": "builds or installs software",
    "left": "was left behind by the build",
    "privileged": "runs with another's rights",
    "writable": "can be written by the user",
    "closed": "cannot be read, or entered, by every user",
    "dated_bytecode": "is compiled again at every start",
    "imports": "cannot be imported",
    "trials": "failed when it was tried",
    "class_data": "was said in place of mapping the archive of Spark's classes",
}
"""What must not be found at all, and why not: keys of the inspection, ends of sentences."""


def build_question(target: str) -> tuple[list[str], str]:
    """Return the command to run in the image of this target, and its standard input.

    By standard input because nothing is mounted and nothing is added: what is looked into is the
    image as users have it. Two modules travel as one text: the first is there for the second to
    import.

        sys.modules['inspect_spark'] = (an empty module)
        exec(text of inspect_spark.py, in that module)
        text of inspect_image.py, which begins with `import inspect_spark`
    """
    trials, script = (_FOLDER.joinpath(name).read_text("utf-8") for name in _SCRIPTS)
    module = Path(_SCRIPTS[0]).stem
    lines = (
        "import sys, types",
        f"sys.modules[{module!r}] = types.ModuleType({module!r})",
        f"exec({trials!r}, sys.modules[{module!r}].__dict__)",
    )
    return [PYTHON, "-", *_MODULES[target]], "\n".join([*lines, script])


def compute_key() -> str:
    """Return 8 hex digits that change with whatever is checked.

    They are in the name of the file that says "passed" (images.py): a stricter check looks again
    into images that were found right. Locks are not in it, since they change the image's own key.
    """
    names = (Path(__file__).name, *_SCRIPTS, "sbom_formats.py")
    contents = [_FOLDER.joinpath(name).read_bytes() for name in names]
    return hashlib.sha256(b"\0".join(contents)).hexdigest()[:8]


def list_problems(target: str, version: str, contents: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for everything in the image that must not be so.

    `version` is the project's, `contents` what inspect_image.py printed.
    """
    if contents["user"] != USER:
        yield f"runs as {contents['user']}, not as {USER}"
    # Spark and programs of users write into the folder that they start in.
    if contents["folder"] != "/tmp":
        yield f"starts in {contents['folder']}, not in the one folder that can be written"
    if contents["megabytes"] > MAX_MEGABYTES[target]:
        yield f"takes {contents['megabytes']:.0f} MB, more than {MAX_MEGABYTES[target]}"
    for key, why in _EMPTY.items():
        yield from (f"{item} {why}" for item in contents[key])
    # One way only: that a package of the lock is missing shows in `imports`, and the lock has some
    # for other systems and Pythons than the image's.
    locked = {**read_versions(target), OURS: {version}}
    for name, installed in contents["packages"].items():
        wanted = locked.get(name, {"nothing"})
        if installed not in wanted:
            yield f"{name} {installed} is installed, the lock says {' or '.join(sorted(wanted))}"
    for bill in (sbom_formats.SPDX_FILE, sbom_formats.CYCLONEDX_FILE):
        yield from _list_bill_problems(bill, contents)
    if target == "spark":
        yield from _list_spark_problems(contents)


def _list_bill_problems(file: str, contents: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for everything in the image that its bill of that name does not list."""
    bill = contents["bills"].get(file)
    if bill is None:
        yield f"the bill of materials {file} is missing"
        return
    # Qualifiers, such as the architecture, are in the bill and not known here.
    listed = {purl.partition("?")[0] for purl in sbom_formats.list_purls(bill)}
    installed = [
        *(Component("pypi", name, version) for name, version in contents["packages"].items()),
        *(
            Component("deb", name, version, "debian")
            for name, version in contents["debian"].items()
        ),
    ]
    for component in installed:
        if component.purl not in listed:
            yield f"{component.name} {component.version} is not in {file}"
    for jar in sorted(set(contents["jars"]) - sbom_formats.list_files(bill)):
        yield f"the jar {jar} is not in {file}"


def _list_spark_problems(contents: Mapping[str, Any]) -> Iterator[str]:
    lock = jar_lock.load()
    for name in (jars.SPARK_SET, jars.IMAGE_SET):
        for jar in lock[name].jars:
            if jar.file not in contents["jars"]:
                yield f"the jar {jar.file} is missing"
    if DECOMMISSION not in contents["scripts"]:
        yield f"Spark cannot start {DECOMMISSION}"
    if MAIN not in contents["applications"]:
        yield f"a driver cannot read {MAIN}"


def read_versions(part: str) -> dict[str, set[str]]:
    """Return versions by package of one part of the lock: operator, spark, build or all.

    More than one where Pythons need another, as of numpy: `uv pip compile --universal` then writes
    a line for each, with a marker behind it (`; python_full_version < '3.12'`).
    """
    text = (ROOT / f"tools/locks/{part}.lock").read_text(encoding="utf-8")
    by_name: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", text, re.MULTILINE):
        by_name.setdefault(name, set()).add(version)
    return by_name
