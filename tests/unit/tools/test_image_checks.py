"""What is wrong in an image is said, one sentence for each thing."""

from typing import Any

import pytest

import image_checks
from icdc_operator.embedded import jar_lock

pytestmark = pytest.mark.unit

VERSION = "1.2.3"


def _found(target: str, **changes: object) -> dict[str, Any]:
    """An image as it should be, but for the changes."""
    lock = jar_lock.load()
    packages = {name: min(known) for name, known in image_checks.versions(target).items()}
    empty = (
        "programs",
        "left",
        "privileged",
        "writable",
        "closed",
        "dated_bytecode",
        "imports",
        "class_data",
    )
    return {
        **{key: [] for key in empty},
        "user": [185, 185],
        "folder": "/tmp",
        "packages": {**packages, "iceberg-cdc-operator": VERSION},
        "jars": [jar.file for name in ("spark", "image") for jar in lock[name].jars],
        "scripts": ["/opt/decom.sh"],
        "applications": ["/opt/iceberg-cdc-operator/main.py"],
        **changes,
    }


@pytest.mark.parametrize("target", ["operator", "spark"])
def test_nothing_is_wrong_with_an_image_as_it_should_be(target: str) -> None:
    assert list(image_checks.problems(target, VERSION, _found(target))) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"user": [0, 0]}, "runs as [0, 0], not as [185, 185]"),
        ({"folder": "/"}, "starts in /"),
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
        ({"class_data": ["mismatch"]}, "mismatch was said in place of mapping the archive"),
        ({"packages": {"pyspark": "1"}}, "pyspark 1 is installed, the lock says"),
        ({"packages": {"other": "1"}}, "other 1 is installed, the lock says nothing"),
        ({"scripts": []}, "cannot start /opt/decom.sh"),
        ({"applications": []}, "a driver cannot read /opt/iceberg-cdc-operator/main.py"),
        ({"jars": []}, "the jar iceberg-aws-bundle"),
    ],
)
def test_each_thing_that_is_wrong_is_named(changes: dict[str, Any], said: str) -> None:
    problems = list(image_checks.problems("spark", VERSION, _found("spark", **changes)))
    assert any(said in problem for problem in problems)
    assert len(problems) == 1 or "jars" in changes
