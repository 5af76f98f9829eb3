"""Releases in a registry that the node pulls from: of this checkout, and of one before it.

Both are made and pushed by the command behind `make release`, each of a commit in a copy of the
checkout. No older release is published, so the one before is this very code with a lower version.
Its images are those of this version with a layer more, so that nothing is compressed twice.

The node pulls manifests, configurations and that layer. It has the layers below, as it has loaded
the images of this version, and containerd asks for none that it has unpacked.
"""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import checkout
import image_context
import released_image
from icdc_cli.embedded import programs
from icdc_testing import ROOT
from icdc_testing.kube import binaries
from icdc_testing.real_cluster.host.layout import NodePaths
from icdc_testing.real_cluster.node import images, oci
from icdc_testing.real_cluster.services import product
from released_image import ReleasedImage

VERSION = image_context.read_source().version
BEFORE = "0.0.1"
_SOURCES = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Dockerfile", ".dockerignore")
_VERSION = re.compile(rf'^(__version__ = |version = |version: |appVersion: )("?){VERSION}\2$', re.M)
_PUSHED = re.compile(r"^pushed (\S+/iceberg-cdc-operator/(\w+)):\S+@(sha256:\w+)$", re.M)
_SECONDS = 600


Released = dict[str, str]
"""The images of a release: references by digest, by target, `operator` or `spark`."""


def publish(node: NodePaths, loaded: list[str], registry: str) -> dict[str, Released]:
    """Make both releases from images of the node, and push them; return them by version."""
    with tempfile.TemporaryDirectory(prefix="icdc-release-") as scratch:
        folder = Path(scratch)
        built, older = folder / "built", folder / "older"
        for each in (built, older):
            each.mkdir()
        for target in image_context.TARGETS:
            image = product.find_image(loaded, target)
            manifest = images.find_manifest(node, f"{image['repository']}:{image['tag']}")
            digest = f"sha256:{manifest.name}"
            oci.collect(built / f"{target}.tar", target, digest, manifest.parent)
        newer = _release(folder, VERSION, built, registry)
        # 1.4 GB: with what follows it would fill the disk of a small machine.
        shutil.rmtree(built)
        for target in image_context.TARGETS:
            archive = folder / "files" / VERSION / f"{target}-{VERSION}.oci.tar"
            _extend(released_image.read_image(archive, target), older / f"{target}.tar")
        return {VERSION: newer, BEFORE: _release(folder, BEFORE, older, registry)}


def _extend(image: ReleasedImage, archive: Path) -> None:
    """Write the image with a layer of one file more."""
    more = {"usr/share/doc/iceberg-cdc-operator/version": BEFORE.encode()}
    with released_image.unpack_layout(image) as layout:
        manifest = layout / "blobs" / "sha256" / image.digest.removeprefix("sha256:")
        oci.extend(archive, image.target, manifest, more, {}, whole=True)


def _commit(source: Path, version: str) -> None:
    """Make a repository of what this checkout is now, with another version in it."""
    source.mkdir()
    checkout.copy_tracked(ROOT, source, *_SOURCES, *checkout.RELEASED)
    charts = source.glob("charts/*/Chart.yaml")
    for path in (source / "pyproject.toml", source / "crds/icdc_api/__init__.py", *charts):
        text, times = _VERSION.subn(rf"\g<1>\g<2>{version}\g<2>", path.read_text(encoding="utf-8"))
        assert times, f"{path} has no version {VERSION}"
        path.write_text(text, encoding="utf-8")
    with (source / "CHANGELOG.md").open("a", encoding="utf-8") as changes:
        changes.write(f"\n## {version}\n- This.\n")
    author = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
    signing = ("-c", "commit.gpgsign=false")
    for command in (
        ("init", "--quiet"),
        ("add", "--all", "--force"),
        (*author, *signing, "commit", "--quiet", "--no-verify", "--message", version),
    ):
        programs.run_program(["git", *command], name="git", seconds=60, folder=source)


def _release(folder: Path, version: str, built: Path, registry: str) -> Released:
    """Run the command of `make release` in a copy of the checkout, with its programs."""
    source, home = folder / version, folder / "helm"
    _commit(source, version)
    programs_folders = [str(binaries.ensure_program(name).parent) for name in ("helm", "crane")]
    environment = {
        **os.environ,
        **{f"HELM_{name}_HOME": str(home / name) for name in ("CACHE", "CONFIG", "DATA")},
        "PATH": os.pathsep.join([*programs_folders, os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(["tools/images", "tools/generated"]),
    }
    what = ("--images", str(built), "--into", str(folder / "files"))
    printed = programs.run_program(
        [
            *(sys.executable, "tools/release/release.py", version, *what),
            *("--registry", registry, "--plain-http"),
        ],
        name=f"the release of {version}",
        seconds=_SECONDS,
        folder=source,
        env=environment,
    )
    pushed = {target: f"{name}@{digest}" for name, target, digest in _PUSHED.findall(printed)}
    assert pushed.keys() == set(image_context.TARGETS), printed
    return pushed
