"""Each image installs a part of the one lock, and no version stands in two places."""

import re
from pathlib import Path

import pytest

import image_checks
import image_context
from icdc_cli.embedded import jars
from icdc_operator.manifests.pods import pod_paths, templates

pytestmark = pytest.mark.unit

ROOT = image_context.ROOT
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def _read_lock(name: str) -> set[tuple[str, str, frozenset[str]]]:
    """Package, version and hashes. Markers differ with what else needs a package."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", "")
    requirements = re.findall(r"^([a-z0-9-]+)==([^ ;]+)(.*)$", text, re.MULTILINE)
    return {
        (package, version, frozenset(re.findall(r"--hash=(\S+)", rest)))
        for package, version, rest in requirements
    }


@pytest.mark.parametrize("part", ["build", "cli", "operator", "spark"])
def test_a_part_of_the_lock_says_nothing_of_its_own(part: str) -> None:
    whole, mine = _read_lock("tools/locks/all.lock"), _read_lock(f"tools/locks/{part}.lock")
    assert mine
    assert all(hashes for _, _, hashes in mine)
    assert mine <= whole


@pytest.mark.parametrize(
    ("part", "packages"),
    [
        ("build", {"hatchling", "setuptools"}),
        ("cli", {"pydantic", "pyyaml", "urllib3"}),
        (
            "operator",
            {"boto3", "kopf", "kubernetes", "psycopg2-binary", "pyiceberg", "thrift"},
        ),
        (
            "spark",
            {
                *("botocore", "kubernetes", "opensearch-py", "pandas", "pyarrow", "pyiceberg"),
                "pyspark",
            },
        ),
    ],
)
def test_a_part_of_the_lock_has_what_it_is_for(part: str, packages: set[str]) -> None:
    assert packages <= image_checks.read_versions(part).keys()


def test_the_operator_installs_no_spark_and_no_image_installs_tools_of_developers() -> None:
    assert not {"pyspark", "pyarrow", "numpy"} & image_checks.read_versions("operator").keys()
    for part in ("operator", "spark"):
        assert (
            not {"pytest", "mypy", "ruff", "hypothesis"} & image_checks.read_versions(part).keys()
        )


def test_the_dockerfile_says_no_version_that_a_lock_says() -> None:
    roots = [root for set_name in (jars.SPARK_SET, jars.IMAGE_SET) for root in jars.ROOTS[set_name]]
    versions = {root.rpartition(":")[2] for root in roots}
    for part in ("operator", "spark"):
        versions |= set().union(*image_checks.read_versions(part).values())
    words = set(re.findall(r"\d+(?:\.\d+)+", DOCKERFILE))
    assert not words & {version for version in versions if "." in version}


@pytest.mark.parametrize(
    "needed",
    [
        f"FROM spark-home AS {image_context.TARGETS[1]}",
        f"FROM python AS {image_context.TARGETS[0]}",
        f"USER {templates.SPARK_UID}:{templates.SPARK_UID}",
        pod_paths.APPLICATION_FILE,
        image_checks.DECOMMISSION,
        f"fetch {jars.SPARK_SET} {jars.IMAGE_SET} ",
    ],
)
def test_the_dockerfile_and_the_manifests_say_the_same(needed: str) -> None:
    assert needed in DOCKERFILE


def test_everything_that_the_dockerfile_copies_reaches_it() -> None:
    copied = re.findall(r"^(?:COPY(?! --from)(?: --\S+)?|     )(.*)$", DOCKERFILE, re.MULTILINE)
    files = [
        word for line in copied for word in re.findall(r"[\w./-]+\.(?:py|lock|toml|gz)\b", line)
    ]
    seen = {name.rstrip("*") for name in image_context.read_source().files}
    assert files
    assert not {file for file in files if not file.startswith("/")} - seen


def test_the_stand_in_of_the_base_image_is_of_the_same_debian() -> None:
    import image_base

    match = re.search(r"^ARG BASE_IMAGE=debian:(\S+)-slim$", DOCKERFILE, re.MULTILINE)
    assert match is not None
    assert match.group(1) == image_base.SUITE
    assert Path(ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()[1] == "*"
