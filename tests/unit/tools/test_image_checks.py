"""What is wrong in an image is said, one sentence for each thing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import image_checks
import sbom_formats
from icdc_cli.embedded import jar_lock
from sbom_formats import Component, Image

pytestmark = pytest.mark.unit

VERSION = "1.2.3"


def _build_bills(packages: dict[str, str], jars: list[str]) -> dict[str, Any]:
    """Return both bills of an image of these packages, these jars and one package of Debian."""
    image = Image("iceberg-cdc-operator/spark", VERSION, "abc", "1980-01-01T00:00:00Z")
    parts = [
        *(Component("pypi", *package) for package in packages.items()),
        *(Component("generic", jar, "1", file=jar) for jar in jars),
        Component("deb", "libc6", "2.36-9", "debian", qualifiers="arch=amd64"),
    ]
    texts = {
        sbom_formats.SPDX_FILE: sbom_formats.render_spdx(image, parts),
        sbom_formats.CYCLONEDX_FILE: sbom_formats.render_cyclonedx(image, parts),
    }
    return {name: json.loads(text) for name, text in texts.items()}


def _make_image(target: str, **changes: object) -> dict[str, Any]:
    """Return an image as it should be, but for the changes."""
    lock = jar_lock.load()
    packages = {name: min(numbers) for name, numbers in image_checks.read_versions(target).items()}
    empty = (
        "programs",
        "left",
        "privileged",
        "writable",
        "closed",
        "dated_bytecode",
        "imports",
        "trials",
        "class_data",
    )
    packages["iceberg-cdc-operator"] = VERSION
    jars = [jar.file for name in ("spark", "image") for jar in lock[name].jars]
    return {
        **{key: [] for key in empty},
        "user": [185, 185],
        "folder": "/tmp",
        "megabytes": 239.0,
        "packages": packages,
        "debian": {"libc6": "2.36-9"},
        "jars": jars,
        "bills": _build_bills(packages, jars),
        "scripts": ["/opt/decom.sh"],
        "applications": ["/opt/iceberg-cdc-operator/main.py"],
        **changes,
    }


@pytest.mark.parametrize("target", ["operator", "spark"])
def test_nothing_is_wrong_with_an_image_as_it_should_be(target: str) -> None:
    assert list(image_checks.list_problems(target, VERSION, _make_image(target))) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"user": [0, 0]}, "runs as [0, 0], not as [185, 185]"),
        ({"folder": "/"}, "starts in /"),
        ({"megabytes": 1201.0}, "takes 1201 MB, more than 1200"),
        ({"programs": ["gcc"]}, "gcc builds or installs"),
        ({"left": ["/var/log/apt/term.log"]}, "/var/log/apt/term.log was left behind"),
        ({"privileged": ["/usr/bin/su"]}, "/usr/bin/su runs with another's rights"),
        ({"writable": ["/opt/venv"]}, "/opt/venv can be written"),
        (
            {"closed": ["/opt/iceberg-cdc-operator (mode 644)"]},
            "/opt/iceberg-cdc-operator (mode 644) cannot be read, or entered, by every user",
        ),
        ({"dated_bytecode": ["/x.pyc"]}, "/x.pyc is compiled again"),
        ({"imports": ["boto3: no"]}, "boto3: no cannot be imported"),
        ({"trials": ["TLS: no"]}, "TLS: no failed when it was tried"),
        ({"class_data": ["mismatch"]}, "mismatch was said in place of mapping the archive"),
        ({"packages": {"pyspark": "1"}}, "pyspark 1 is installed, the lock says"),
        ({"packages": {"other": "1"}}, "other 1 is installed, the lock says nothing"),
        ({"scripts": []}, "cannot start /opt/decom.sh"),
        ({"applications": []}, "a driver cannot read /opt/iceberg-cdc-operator/main.py"),
        ({"jars": []}, "the jar iceberg-aws-bundle"),
    ],
)
def test_each_thing_that_is_wrong_is_named(changes: dict[str, Any], said: str) -> None:
    problems = list(image_checks.list_problems("spark", VERSION, _make_image("spark", **changes)))
    assert any(said in problem for problem in problems)
    locked_kinds = sum(kind in changes for kind in ("packages", "jars"))
    assert len(problems) == 1 or locked_kinds


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"debian": {"libc6": "2.36-10"}}, "libc6 2.36-10 is not in {}"),
        ({"jars": ["unknown-1.jar"]}, "the jar unknown-1.jar is not in {}"),
        ({"packages": {"other": "1"}}, "other 1 is not in {}"),
        ({"bills": {}}, "the bill of materials {} is missing"),
    ],
)
def test_what_a_bill_of_materials_leaves_out_is_named(changes: dict[str, Any], said: str) -> None:
    problems = set(image_checks.list_problems("spark", VERSION, _make_image("spark", **changes)))
    assert {said.format(name) for name in ("sbom.spdx.json", "sbom.cdx.json")} <= problems


@pytest.mark.parametrize("target", ["operator", "spark"])
def test_what_runs_in_an_image_is_one_text_that_needs_no_file_of_ours(
    target: str, tmp_path: Path
) -> None:
    command, text = image_checks.build_question(target)
    # There is no image here: what it would list of one is nothing.
    nothing = (
        "list_paths = list_closed = list_class_data_problems = list\n"
        "read_debian_packages = read_bills = dict\n"
    )
    assert text.endswith("\nmain()\n")
    alone = f"{text.removesuffix('main()' + chr(10))}{nothing}main()\n"
    program = [sys.executable, "-I", *command[1:2], "json"]
    done = subprocess.run(program, input=alone, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    contents = json.loads(done.stdout)
    assert contents["folder"] == str(tmp_path)
    assert contents["trials"] == []
