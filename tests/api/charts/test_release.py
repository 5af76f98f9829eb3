"""A release in a registry is installed and checked by strangers, with nothing of a checkout.

A real registry on loopback; images of a few bytes, since nobody starts them here. The commands are
those of docs/releasing.md and the README as they stand there, but for `--plain-http`.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

import image_context
import publishing
import release
import released_image
import signing
from checkout import Checkout
from icdc_api.errors import Submission
from icdc_testing import ROOT
from icdc_testing.kube import binaries
from icdc_testing.kube.charts.helm import Helm
from icdc_testing.kube.registry import open_registry
from icdc_testing.real_cluster.node import oci
from icdc_testing.user_programs import pages
from released_image import ReleasedImage
from wanted import WantedRelease

pytestmark = pytest.mark.api

VERSION = image_context.read_source().version
COMMAND_SECONDS = 120.0
INSTALL_SECONDS = 300.0
"""For the packages of the plugin, which come from an index."""


@dataclass(frozen=True)
class PublishedRelease:
    """A release that was pushed, and what somebody types to use it."""

    release: WantedRelease
    images: list[ReleasedImage]
    pushed: list[str]
    environment: Mapping[str, str]
    """With the programs on PATH, and the variables of the page."""

    def publish(self, images: list[ReleasedImage]) -> list[str]:
        charts = sorted(self.release.folder.glob("*.tgz"))
        return list(publishing.publish(self.release, images, charts, plain_http=True))

    def type(self, command: str) -> str:
        """Run the lines in a shell in the release's folder; return what they print."""
        plain = re.sub(r"^(helm \w+) ", r"\1 --plain-http ", command, flags=re.MULTILINE)
        return pages.type_commands(
            plain, self.environment, folder=self.release.folder, seconds=COMMAND_SECONDS
        )


def list_commands(kind: str) -> str:
    """Return the one block of the page that is for these tests under that name."""
    (block,) = pages.list_blocks(ROOT / "docs" / "releasing.md", f"sh {kind}")
    return block


def write_built(folder: Path, content: bytes = b"") -> Path:
    """Write archives as `make images` does, but small."""
    folder.mkdir()
    for target in image_context.TARGETS:
        bills = dict.fromkeys(released_image.BILLS.values(), b"{}")
        oci.write_files(folder / f"{target}.tar", target, {**bills, target: content})
    return folder


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    """The address of an empty registry."""
    with open_registry() as address:
        yield address


@pytest.fixture(scope="module")
def published(
    registry: str, helm: Helm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PublishedRelease]:
    """A release of this checkout, pushed."""
    folder = tmp_path_factory.mktemp("release")
    wanted_release = WantedRelease(
        VERSION, f"{registry}/lake", Checkout("c0ffee"), 315532800, "- This.\n", folder / VERSION
    )
    homes = {f"HELM_{name}_HOME": str(helm.home / name) for name in ("CACHE", "CONFIG", "DATA")}
    programs = os.pathsep.join(
        str(path.parent) for path in (helm.program, binaries.ensure_program("crane"))
    )
    environment = {
        **os.environ,
        **homes,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "REGISTRY": wanted_release.registry,
        "VERSION": VERSION,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", environment["PATH"])
        images = release.make_release(wanted_release, write_built(folder / "built"))
        made = PublishedRelease(wanted_release, images, [], environment)
        yield replace(made, pushed=made.publish(images))


def test_the_chart_renders_the_released_images_without_a_value(
    published: PublishedRelease,
) -> None:
    command = list_commands("install").replace("helm install", "helm template")
    objects = list(yaml.safe_load_all(published.type(command)))
    (deployment,) = [item for item in objects if item and item.get("kind") == "Deployment"]
    containers = deployment["spec"]["template"]["spec"]["containers"]
    operator, spark = (
        f"{published.release.registry}/{image.repository}@{image.digest}"
        for image in published.images
    )
    assert {container["image"] for container in containers} == {operator}
    assert f"--image={spark}" in str(containers)
    for reference in (operator, spark):
        manifest = published.type(f"crane manifest {reference}")
        assert reference.endswith(hashlib.sha256(manifest.encode()).hexdigest())


def test_the_writer_of_the_demo_has_the_released_image(published: PublishedRelease) -> None:
    chart = "oci://$REGISTRY/charts/iceberg-cdc-demo --version $VERSION"
    shown = published.type(f"helm template demo {chart} --show-only templates/writer.yaml")
    (image,) = re.findall(r"image: (\S+)", shown)
    (spark,) = (image.digest for image in published.images if image.target == "spark")
    assert image == f"{published.release.registry}/iceberg-cdc-operator/spark@{spark}"


def test_a_chart_in_a_private_registry_has_the_secret_for_both_images(
    published: PublishedRelease,
) -> None:
    typed = list_commands("private").replace("\\\n", " ").splitlines()
    (install,) = (line for line in typed if line.startswith("helm install"))
    objects = list(yaml.safe_load_all(published.type(install.replace("install", "template", 1))))
    (deployment,) = [item for item in objects if item and item.get("kind") == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert "--image-pull-secret=registry" in pod["containers"][0]["args"]


def test_a_stranger_checks_files_images_and_chart(published: PublishedRelease) -> None:
    shown = published.type(list_commands("check"))
    notes = (published.release.folder / release.NOTES).read_text(encoding="utf-8")
    for image in published.images:
        assert image.digest in shown.splitlines()
        assert f"{published.release.registry}/{image.repository}@{image.digest}`" in notes
    sums = (published.release.folder / "SHA256SUMS").read_text().split()[1::2]
    assert [f"{name}: OK" for name in sums] == shown.splitlines()[: len(sums)]


@pytest.mark.skipif(not os.environ.get("ICDC_SOAK"), reason="ICDC_SOAK builds cosign: six minutes")
@pytest.mark.timeout(1800)
def test_a_stranger_checks_signatures(
    published: PublishedRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{binaries.ensure_program('cosign').parent}{os.pathsep}{published.environment['PATH']}"
    secret = {"PATH": path, "COSIGN_PASSWORD": "secret"}
    for name, value in secret.items():
        monkeypatch.setenv(name, value)
    stranger = replace(published, environment={**published.environment, **secret})
    stranger.type("cosign generate-key-pair")
    folder = published.release.folder
    signing.sign_file(folder / "SHA256SUMS", str(folder / "cosign.key"))
    for reference in published.pushed:
        signing.sign_reference(reference, str(folder / "cosign.key"), plain_http=True)
    stranger.type(list_commands("signed"))
    stranger.type("cosign generate-key-pair --output-key-prefix another")
    for line in list_commands("signed").splitlines():
        with pytest.raises(AssertionError, match="signature"):
            stranger.type(line.replace("cosign.pub", "another.pub"))


@pytest.mark.parametrize(
    ("chart", "targets"),
    [("iceberg-cdc-operator", ["operator", "spark"]), ("iceberg-cdc-demo", ["spark"])],
)
def test_artifact_hub_reads_of_the_chart_which_images_it_has(
    chart: str, targets: list[str], published: PublishedRelease
) -> None:
    with tarfile.open(published.release.folder / f"{chart}-{VERSION}.tgz") as tar:
        file = tar.extractfile(f"{chart}/Chart.yaml")
        assert file is not None
        about = yaml.safe_load(file)
    images = yaml.safe_load(about["annotations"]["artifacthub.io/images"])
    assert {item["name"]: item["image"].partition("@")[2] for item in images} == {
        image.target: image.digest for image in published.images if image.target in targets
    }


def test_a_push_is_repeated_and_never_replaces_what_is_there(
    published: PublishedRelease, tmp_path: Path
) -> None:
    assert published.publish(published.images) == published.pushed
    built = write_built(tmp_path / "built", b"another")
    other = replace(published.release, folder=tmp_path / VERSION)
    images = release.make_release(other, built)
    with pytest.raises(Submission, match=r"operator:\S+ is there already"):
        replace(published, release=other).publish(images)
    # The images are those that are there, the chart is another.
    shutil.copy(
        next(other.folder.glob("iceberg-cdc-operator-*.tgz")),
        changed := tmp_path / f"iceberg-cdc-operator-{VERSION}.tgz",
    )
    with pytest.raises(Submission, match=r"charts/iceberg-cdc-operator:\S+ is there already"):
        list(publishing.publish(published.release, published.images, [changed], plain_http=True))
    assert published.images[0].digest in published.type(list_commands("check"))


def test_the_same_checkout_makes_the_same_files(
    published: PublishedRelease, tmp_path: Path
) -> None:
    again = replace(published.release, folder=tmp_path / VERSION)
    release.make_release(again, published.release.folder.parent / "built")
    first, second = (
        (made.folder / "SHA256SUMS").read_text() for made in (published.release, again)
    )
    assert first == second
    assert {*first.split()[1::2], "SHA256SUMS"} == {path.name for path in again.folder.iterdir()}


def test_the_plugin_installs_its_locked_packages_once_and_runs_through_a_link(
    published: PublishedRelease, tmp_path: Path
) -> None:
    (archive,) = published.release.folder.glob("kubectl-icdc-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "store", filter="data")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl-icdc").symlink_to("../store/kubectl-icdc")
    # What is in the folder of the call is not imported.
    (tmp_path / "yaml.py").write_text("raise SystemExit(9)")
    environment = {
        **os.environ,
        "ICDC_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": "",
        # An index that does not answer ends the test in seconds, and by its name.
        "PIP_DEFAULT_TIMEOUT": "20",
        "PIP_RETRIES": "1",
    }

    def call() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [tmp_path / "bin" / "kubectl-icdc", "version", "--client", "--output", "json"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=INSTALL_SECONDS,
        )

    first, second = call(), call()
    assert (first.returncode, second.returncode) == (0, 0), (
        f"needs the package index that pip is configured for: {first.stderr}"
    )
    assert "only once" in first.stderr
    assert second.stderr == ""
    assert VERSION in str(json.loads(second.stdout))
    (made,) = (tmp_path / "cache" / "plugin").iterdir()
    path = f"{made / 'bin'}{os.pathsep}{os.environ['PATH']}"
    python = replace(published, environment={**published.environment, "PATH": path})
    lock = (tmp_path / "store" / "requirements.lock").read_text()
    locked = set(re.findall(r"^([a-z-]+==[\d.]+)", lock, re.MULTILINE))
    assert locked <= set(
        python.type("python3 -m pip freeze").lower().replace("_", "-").splitlines()
    )
    # Here, where all that it needs is there already.
    python.type(list_commands("pip"))
    assert VERSION in python.type("python3 -m icdc_cli.main version --client")
