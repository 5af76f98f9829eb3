"""Makes a release of this checkout: everything that a stranger needs to install it, in one folder.

    tools/release/release.py VERSION --check [--registry R]
    tools/release/release.py VERSION --images FOLDER [--registry R] [--into FOLDER] [--plain-http]
                             [--sign-key KEY]

    refuse      wanted             another version, no notes, no registry's name, no commit
    images      released_image     compressed archives, whose digests all else names; bills
    charts      released_charts    with these images as defaults
    CRD         as it is
    wheel       hatchling
    plugin      krew_plugin        for kubectl, with the wheel in it
    records     records            provenance, checksums
    signature   signing            only with a key: of the checksums, and of what is pushed
    registry    publishing         only with one: images and charts

What a user gains: one folder has all that an installation without a checkout needs, and the
checksums of two releases say whether they are the same.

`make release` builds and checks the images first. Two releases of one commit from the same images
are the same bytes. The only program that it starts itself is hatchling; formats are left to the
modules above.
"""

import argparse
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import checkout
import image_context
import krew_plugin
import publishing
import records
import released_charts
import released_image
import signing
import wanted
from icdc_api.errors import IcdcError
from icdc_cli.embedded import programs
from released_image import ReleasedImage
from wanted import WantedRelease

NOTES = "RELEASE_NOTES.md"
CRD = image_context.ROOT / "crds" / "icebergcdcpipelines.icebergcdc.dev.yaml"
"""For people who install it separately from the chart (`crds.install`)."""
_WHEEL_SOURCES = ("pyproject.toml", "README.md", "LICENSE", "crds", "operator", "sparkapps")
_WHEEL_SECONDS = 300


def read_release(options: argparse.Namespace, root: Path = image_context.ROOT) -> WantedRelease:
    """Return what the arguments ask for; BadSpec where it may not be released."""
    source = image_context.read_source(root)
    wanted.check_version(options.version, source.version)
    wanted.check_registry(options.registry)
    state = checkout.read_checkout(root)
    # A dry run may be made of any state: nobody else gets it under this version.
    if options.registry:
        wanted.check_checkout(state)
    if options.sign_key:
        signing.check_key(options.sign_key)
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    return WantedRelease(
        version=options.version,
        registry=options.registry,
        checkout=state,
        epoch=source.epoch,
        notes=wanted.cut_notes(changelog, options.version),
        folder=options.into / options.version,
    )


def make_release(release: WantedRelease, built: Path) -> list[ReleasedImage]:
    """Write all files into the release's folder, from the archives in `built`; return the images.

    The folder is there only once it is complete; one of the same version is replaced.
    """
    final = release.folder
    part = final.with_name(f"{final.name}.part")
    # There from a release that failed halfway.
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    _fill(replace(release, folder=part), built)
    shutil.rmtree(final, ignore_errors=True)
    part.rename(final)
    # Read anew: the images of `_fill` name archives in the folder before its rename.
    return [
        released_image.read_image(final / f"{target}-{release.version}.oci.tar", target)
        for target in image_context.TARGETS
    ]


def _fill(release: WantedRelease, built: Path) -> None:
    folder, images, files = release.folder, [], []
    for target in image_context.TARGETS:
        made = released_image.pack_image(built / f"{target}.tar", target, release.version, folder)
        images.append(released_image.read_image(made[0], target))
        files += made
    files += released_charts.pack_charts(release, images)
    files.append(Path(shutil.copy(CRD, folder)))
    wheel = build_wheel(release)
    files += [wheel, *krew_plugin.pack_plugin(release, wheel)]
    notes = folder / NOTES
    notes.write_text(render_notes(release, images), encoding="utf-8")
    records.write_provenance(release, [*files, notes], images)
    # Last, because the checksums cover all other files, the provenance among them.
    records.write_sums(folder)


def build_wheel(release: WantedRelease) -> Path:
    """Build the wheel of command line, operator and application; return its path."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    with tempfile.TemporaryDirectory() as scratch:
        # From a copy: hatchling would pack files of these folders that are in no commit as well.
        checkout.copy_tracked(image_context.ROOT, Path(scratch), *_WHEEL_SOURCES)
        programs.run_program(
            [*command, "--directory", str(release.folder.absolute())],
            name="hatchling",
            seconds=_WHEEL_SECONDS,
            folder=Path(scratch),
            env={**os.environ, "SOURCE_DATE_EPOCH": str(release.epoch)},
        )
    # hatchling chooses its name, and the folder was empty before: there is this one alone.
    (wheel,) = release.folder.glob("*.whl")
    return wheel


def render_notes(release: WantedRelease, images: Sequence[ReleasedImage]) -> str:
    """Return the release notes: what changed, and the images by digest."""
    named = "".join(
        f"- `{release.name_in_registry(image.repository)}@{image.digest}`\n" for image in images
    )
    return (
        f"# {image_context.REPOSITORY} {release.version}\n\n{release.notes}\n## Images\n\n{named}"
    )


def push_release(
    release: WantedRelease, images: Sequence[ReleasedImage], options: argparse.Namespace
) -> None:
    """Push images and charts, sign each with the key if there is one, and print its reference."""
    charts, plain = sorted(release.folder.glob("*.tgz")), options.plain_http
    for reference in publishing.publish(release, images, charts, plain_http=plain):
        if options.sign_key:
            signing.sign_reference(reference, options.sign_key, plain_http=plain)
        _say(f"pushed {reference}")


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="release.py", description=__doc__.partition("\n")[0])
    parser.add_argument("version", help="that of pyproject.toml, to be sure")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--images", type=Path, metavar="FOLDER", help="archives of `make images`")
    what.add_argument("--check", action="store_true", help="only say whether it may be made")
    parser.add_argument("--registry", default="", help="where to push; none: a dry run")
    parser.add_argument("--into", type=Path, default=Path(".icdc/release"), metavar="FOLDER")
    parser.add_argument("--sign-key", default="", metavar="KEY", help="a file, or as cosign has it")
    parser.add_argument("--plain-http", action="store_true", help="a registry without TLS")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the release and print what it has; the exit code: 0 done, 1 refused or failed."""
    options = _build_parser().parse_args(arguments)
    try:
        release = read_release(options)
        if options.check:
            return 0
        images = make_release(release, options.images)
        if options.sign_key:
            signing.sign_file(release.folder / records.SUMS, options.sign_key)
        for path in sorted(release.folder.iterdir()):
            _say(f"{path.stat().st_size:>12}  sha256:{records.hash_file(path)}  {path}")
        if release.registry:
            push_release(release, images, options)
        else:
            _say("dry run: nothing was pushed, and the charts name no registry; set REGISTRY=")
            if release.checkout.changed:
                _say(f"not to be pushed: {wanted.describe_changes(release.checkout)}")
    except (IcdcError, tarfile.TarError, OSError) as exc:
        sys.stderr.write(f"error: {exc}\n")
        return 1
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    # At once, also into a pipe: what comes next may be the push of an image, which takes minutes.
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
