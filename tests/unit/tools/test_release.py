"""What would be the wrong release is refused, and the parts of one name each other rightly."""

import gzip
import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

import image_context
import oci_archive
import records
import release
import released_charts
import released_image
import wanted
from checkout import Checkout
from icdc_api.errors import BadSpec, Bug
from icdc_testing import ROOT
from icdc_testing.real_cluster.node import oci
from released_image import ReleasedImage
from wanted import WantedRelease

pytestmark = pytest.mark.unit

CHANGELOG = """# Changelog

## Unreleased

### Added
- Next.

## [0.2.0] - 2026-11-27

### Fixed
- This.

## 0.1.0
- That.
"""
DIGEST = f"sha256:{'1f' * 32}"
BASE = f"sha256:{'ba' * 32}"
BILLS = {path: f'"{ending}"'.encode() for ending, path in released_image.BILLS.items()}


def make_wanted(folder: Path, registry: str = "registry.example/lake") -> WantedRelease:
    return WantedRelease("0.2.0", registry, Checkout("c0ffee"), 315532800, "- This.\n", folder)


def test_the_version_of_the_checkout_is_released() -> None:
    wanted.check_version("0.2.0", "0.2.0")


@pytest.mark.parametrize(
    "version", ["", "0.2", "v0.2.0", "0.2.0+7", "00.2.0", "0.2.0-rc.1", "0.2.0rc1", "0.2.0 "]
)
def test_what_is_no_version_is_refused_with_the_one_to_type(version: str) -> None:
    with pytest.raises(BadSpec, match=r"is not a version.*: make release VERSION=0\.2\.0"):
        wanted.check_version(version, "0.2.0")


def test_another_version_than_that_of_the_checkout_is_refused() -> None:
    with pytest.raises(BadSpec, match=r"VERSION=0\.3\.0, but this checkout is version 0\.2\.0"):
        wanted.check_version("0.3.0", "0.2.0")


@pytest.mark.parametrize(
    "registry",
    ["", "registry.example", "127.0.0.1:5000/a/b_c", "r:80/x", "localhost", "localhost/a.b/c--d"],
)
def test_a_name_before_that_of_an_image_is_a_registry(registry: str) -> None:
    wanted.check_registry(registry)


@pytest.mark.parametrize(
    "registry",
    [
        *("https://r.example", "oci://r", "r.example/", "R.example/a"),
        # These are names in Docker Hub.
        *("lake", "lake/cdc.d", "localhosts/a"),
        *("a..b", ".a", "a.b-", "-a.b", "r.io/-x", "r.io/x-", "r.io/a..b", "r.io/a___b", "r.io:/a"),
    ],
)
def test_what_cannot_stand_before_an_image_is_refused(registry: str) -> None:
    with pytest.raises(BadSpec, match=r"no scheme.* a dot or a port in the host"):
        wanted.check_registry(registry)


@pytest.mark.parametrize(
    ("version", "notes"),
    [("0.2.0", "### Fixed\n- This.\n"), ("0.1.0", "- That.\n"), ("0.3.0", "### Added\n- Next.\n")],
)
def test_the_notes_are_the_section_of_the_version(version: str, notes: str) -> None:
    assert wanted.cut_notes(CHANGELOG, version) == notes


@pytest.mark.parametrize("changelog", ["", "# Changelog\n", "## Unreleased\n\n## 0.2.0\nThis.\n"])
def test_a_version_of_which_the_changelog_says_nothing_is_refused(changelog: str) -> None:
    with pytest.raises(BadSpec, match=r"neither a section `## 0\.3\.0 - "):
        wanted.cut_notes(changelog, "0.3.0")


def test_this_checkout_is_refused_under_another_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert release.main(["99.0.0", "--check"]) == 1
    assert capsys.readouterr().err.startswith("error: VERSION=99.0.0, but this checkout is version")


def test_the_readme_and_the_page_install_what_they_have_released() -> None:
    page = (ROOT / "docs" / "releasing.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    typed = readme.replace("\\\n", " ").splitlines()
    (made,) = (line.split()[2:] for line in typed if line.startswith("make release"))
    assert f"export {made[1]} {made[0]}\n" in page
    given = dict(word.split("=") for word in made)
    assert given["VERSION"] == image_context.read_source().version
    (install,) = (line for line in typed if line.startswith("helm install"))
    named = install.replace(given["REGISTRY"], "$REGISTRY").replace(given["VERSION"], "$VERSION")
    (block,) = re.findall(r"```sh install\n(.*?)```", page, re.DOTALL)
    assert named.split() == block.split()
    quick = (ROOT / "docs" / "quick-start.md").read_text(encoding="utf-8")
    charts = re.findall(r"oci://(\S+)/charts/(\S+) --version (\S+)", quick)
    assert charts == [
        (given["REGISTRY"], chart, given["VERSION"])
        for chart in ("iceberg-cdc-operator", "iceberg-cdc-demo")
    ]


def test_layers_are_compressed_and_the_configuration_stays(tmp_path: Path) -> None:
    built = tmp_path / "built.tar"
    older = dict.fromkeys(BILLS, b"of another image")
    oci.write_files(built, "any", older, {**BILLS, "app": b"x" * 100_000})
    (archive, *bills) = released_image.pack_image(built, "operator", "0.2.0", tmp_path)
    image = released_image.read_image(archive, "operator")
    with released_image.unpack_layout(image) as layout:
        blobs = {path.name: path.read_bytes() for path in (layout / "blobs/sha256").iterdir()}
    assert all(name == hashlib.sha256(data).hexdigest() for name, data in blobs.items())
    manifest = json.loads(blobs[image.digest.partition(":")[2]])
    config = json.loads(blobs[manifest["config"]["digest"].partition(":")[2]])
    layers = manifest["layers"]
    packed = [blobs[layer["digest"].partition(":")[2]] for layer in layers]
    assert [layer["size"] for layer in layers] == [len(data) for data in packed]
    assert {layer["mediaType"][-9:] for layer in layers} == {".tar+gzip"}
    assert len(packed[1]) < 10_000
    # By these a container runtime checks what it unpacks.
    unpacked = [hashlib.sha256(gzip.decompress(data)).hexdigest() for data in packed]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{digest}" for digest in unpacked]
    assert image.base == config["rootfs"]["diff_ids"][0]
    assert image.digest != oci_archive.read_digest(built)
    assert [path.name for path in bills] == ["operator-0.2.0.spdx.json", "operator-0.2.0.cdx.json"]
    assert [path.read_bytes() for path in bills] == list(BILLS.values())


def test_layers_that_are_compressed_already_stay_as_they_are(tmp_path: Path) -> None:
    built, again = tmp_path / "built.tar", tmp_path / "again"
    oci.write_files(built, "any", BILLS)
    again.mkdir()
    (archive, *bills) = released_image.pack_image(built, "operator", "0.2.0", tmp_path)
    (copy, *others) = released_image.pack_image(archive, "operator", "0.2.0", again)
    assert copy.read_bytes() == archive.read_bytes()
    assert [path.read_bytes() for path in others] == [path.read_bytes() for path in bills]


def test_an_image_without_a_bill_is_refused(tmp_path: Path) -> None:
    built = tmp_path / "built.tar"
    oci.write_files(built, "any", {"app": b""})
    with pytest.raises(BadSpec, match=r"sbom\.spdx\.json"):
        released_image.pack_image(built, "operator", "0.2.0", tmp_path)


@pytest.mark.parametrize("registry", ["registry.example/lake", ""])
@pytest.mark.parametrize(
    ("chart", "target", "path"),
    [
        ("operator", "operator", ["image"]),
        ("operator", "spark", ["spark", "image"]),
        ("demo", "spark", ["writer", "image"]),
    ],
)
def test_an_image_becomes_the_default_of_the_chart_and_nothing_else_changes(
    chart: str, target: str, path: list[str], registry: str, tmp_path: Path
) -> None:
    text = (ROOT / f"charts/iceberg-cdc-{chart}/values.yaml").read_text(encoding="utf-8")
    image = ReleasedImage(target, tmp_path, DIGEST, BASE)
    changed = released_charts.set_default_image(text, image, make_wanted(tmp_path, registry))
    before, after = yaml.safe_load(text), yaml.safe_load(changed)
    group = before
    for name in path:
        group = group[name]
    group["digest"] = DIGEST
    group["repository"] = f"{registry}/{group['repository']}".lstrip("/")
    assert after == before
    assert sum(a != b for a, b in zip(text.split("\n"), changed.split("\n"), strict=True)) <= 2


def test_values_without_the_image_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Bug, match="0 times"):
        released_charts.set_default_image(
            "a: 1\n", ReleasedImage("spark", tmp_path, DIGEST, BASE), make_wanted(tmp_path)
        )


def test_the_crd_that_artifact_hub_shows_is_the_charts() -> None:
    about = yaml.safe_load((ROOT / "charts/iceberg-cdc-operator/Chart.yaml").read_text())
    (shown,) = yaml.safe_load(about["annotations"]["artifacthub.io/crds"])
    crd = yaml.safe_load((ROOT / "crds/icebergcdcpipelines.icebergcdc.dev.yaml").read_text())
    (version,) = crd["spec"]["versions"]
    assert (shown["name"], shown["kind"], shown["version"]) == (
        crd["metadata"]["name"],
        crd["spec"]["names"]["kind"],
        version["name"],
    )


def test_checksums_are_those_that_sha256sum_reads(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    assert records.write_sums(tmp_path).read_text().split()[1::2] == ["a", "b"]
    command = ["sha256sum", "--check", "--strict", records.SUMS]
    assert subprocess.run(command, cwd=tmp_path, check=False, timeout=60).returncode == 0
    (tmp_path / "a").write_text("changed")
    assert subprocess.run(command, cwd=tmp_path, check=False, timeout=60).returncode == 1


def test_the_statement_names_files_images_commit_and_locks(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"a")
    images = [ReleasedImage("spark", tmp_path, DIGEST, BASE)]
    path = records.write_provenance(make_wanted(tmp_path), [file], images)
    statement = json.loads(path.read_text())
    assert {item["name"]: item["digest"]["sha256"] for item in statement["subject"]} == {
        "file": hashlib.sha256(b"a").hexdigest(),
        "registry.example/lake/iceberg-cdc-operator/spark": "1f" * 32,
    }
    built = statement["predicate"]["buildDefinition"]
    assert built["externalParameters"]["VERSION"] == "0.2.0"
    sources = {item["name"]: item["digest"] for item in built["resolvedDependencies"]}
    assert sources["checkout"] == {"gitCommit": "c0ffee"}
    assert sources["layer of the base image"] == {"sha256": "ba" * 32}
    assert not sources.keys() & {"tools/locks/all.lock", "tools/locks/site.lock"}
    lock = (ROOT / "tools/locks/spark.lock").read_bytes()
    assert sources["tools/locks/spark.lock"]["sha256"] == hashlib.sha256(lock).hexdigest()
