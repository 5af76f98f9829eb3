"""Builds the images of the Dockerfile as OCI archives, and looks into what was built.

    tools/images/images.py build [operator|spark …] [--builder B] [--tag T] [--archive FOLDER]
    tools/images/images.py check [operator|spark …] [--builder B] [--tag T]

The one entry to the other modules here: `make images` and the cluster level of the tests build by
it, so that both share layers and archives, and have the same image for the same checkout.

    checkout     image_context    what the image is made of: its key
    key          images           an archive of that key is there: done
    no archive   image_builder, image_buildkit    base, layers, image
    image        oci_archive      the archive, in the cache under the key
    image        image_checks     inspected once for each archive

An image is built again only when something that it is made of has changed; what is built lies
outside the checkout. Knows neither how builders are called nor what is in an image.
"""

import argparse
import json
import os
import shutil
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import host_packages
import image_checks
import image_context
import oci_archive
from icdc_api.errors import IcdcError
from icdc_cli.embedded import jars
from image_builder import Buildah
from image_buildkit import PACKAGES, BuildKit
from image_context import TARGETS, Source

RETAINED_STATES = 1
"""States of the checkout whose archives stay, for each builder; layers give others soon.

Both images of one state take 1.4 GB.
"""
_ARCHIVES = "image-archives"
"""The folder of the cache for archives, one folder in it for each builder and state."""
_BUILDERS = ("buildah", "buildkit")
# Of Debian. The second builder needs them too: its base image is buildah's.
_FIRST = ("buildah", "debootstrap")
_PACKAGES = {"buildah": _FIRST, "buildkit": (*_FIRST, *PACKAGES)}

Builder = Buildah | BuildKit


def build(options: argparse.Namespace) -> int:
    """Make the archives that are asked for; print name, digest, megabytes and seconds of each."""
    source = image_context.source()
    tag = options.tag or _tag(source, options)
    folder = options.archive or _archives(source, options, tag)
    folder.mkdir(parents=True, exist_ok=True)
    for target in options.targets or TARGETS:
        started = time.monotonic()
        # In the cache whatever --archive says: the next call, with another folder, finds it there.
        stored = _archives(source, options, tag) / _file_name(target, options)
        with _storage(options) as builder:
            if options.rebuild or not stored.is_file():
                _build(builder, source, options, target, stored, tag)
        asked = folder / stored.name
        if asked != stored:
            _same_file(stored, asked)
        seconds = time.monotonic() - started
        digest = oci_archive.digest(asked)
        megabytes = asked.stat().st_size / 1e6
        name = image_context.name(target, tag)
        _say(f"{name} {digest} {megabytes:.0f} MB, {seconds:.1f} s: {asked}")
    return 0


def _build(
    builder: Builder, source: Source, options: argparse.Namespace, target: str, to: Path, tag: str
) -> None:
    """Build the image and write its archive as `to`, a path in the folder of its state."""
    host_packages.ensure(_PACKAGES[options.builder])
    # Before and not after: the layers of this build are what the next one wants.
    builder.shrink()
    base = builder.base(options.base_image, options.base, source.epoch)
    image = builder.build(
        target,
        base=base,
        arguments=source.arguments(),
        epoch=source.epoch,
        cached=not options.rebuild,
    )
    to.parent.mkdir(parents=True, exist_ok=True)
    # Renamed when it is whole: a file of that name is taken for a finished archive.
    made = to.with_suffix(".part")
    builder.archive(image, image_context.name(target, tag), made)
    made.rename(to)
    _forget(to.parent)


def check(options: argparse.Namespace) -> int:
    """Inspect the images of this checkout, building those that are missing; 1 if one is wrong.

    An image whose archive was found to be right is inspected again only by other checks.
    """
    source = image_context.source()
    tag = options.tag or _tag(source, options)
    wrong: list[str] = []
    for target in options.targets or TARGETS:
        archive = _archives(source, options, tag) / _file_name(target, options)
        # Beside the archive, so that it goes with it, and named by the checks that it passed.
        passed = archive.with_suffix(f".{image_checks.key()}.passed")
        if passed.is_file() and not options.rebuild:
            _say(f"{target}: 0 problems, as found before")
            continue
        contents = _inspect(source, options, target, archive)
        problems = list(image_checks.problems(target, source.version, contents))
        wrong += [f"{target}: {problem}" for problem in problems]
        _say(f"{target}: {len(contents['packages'])} packages, {len(problems)} problems")
        # Without an archive the image was built for this check alone: there is nothing to mark.
        if not problems and archive.is_file():
            passed.touch()
    for line in wrong:
        _say(line)
    return 1 if wrong else 0


def _inspect(
    source: Source, options: argparse.Namespace, target: str, archive: Path
) -> dict[str, Any]:
    """Run the inspection in the image, built if it is missing, and return what that lists."""
    with _storage(options) as builder:
        host_packages.ensure(_PACKAGES[options.builder])
        image = builder.find(archive)
        if image is None:
            base = builder.base(options.base_image, options.base, source.epoch)
            arguments = source.arguments()
            image = builder.build(
                target, base=base, arguments=arguments, epoch=source.epoch, cached=True
            )
        contents: dict[str, Any] = json.loads(builder.run(image, *image_checks.question(target)))
    return contents


def layers(options: argparse.Namespace) -> int:
    """Print digest, bytes and compressed bytes of each layer, so that builds can be compared.

    Two builds of one checkout that print the same lines are the same image.
    """
    for file in options.archives:
        listed = oci_archive.layers(file)
        for digest, size, packed in listed:
            _say(f"{file.stem} {digest} {size} {packed}")
        whole = sum(size for _, size, _ in listed) / 1e6
        sent = sum(packed for _, _, packed in listed) / 1e6
        _say(f"{file.stem} {whole:.0f} MB, compressed {sent:.0f} MB")
    return 0


def clean(_: argparse.Namespace) -> int:
    """Remove the storage of both builders and all archives; those that have another name stay."""
    # The second builder's folder lies in the first one's, and its storage has mounts of its own.
    for name in reversed(_BUILDERS):
        with _storage(argparse.Namespace(builder=name)) as builder:
            builder.clean()
            # Under the lock: a build that is at work writes its archive there.
            shutil.rmtree(jars.cache_dir() / _ARCHIVES, ignore_errors=True)
    return 0


@contextmanager
def _storage(options: argparse.Namespace) -> Iterator[Builder]:
    """Lend the builder that the options name; others wait, since builders share one storage.

    For one target at a time: a check of the tests then waits for one image, not for both.
    """
    folder = jars.cache_dir() / "images"
    with jars.exclusive(folder.with_name("images.lock")):
        folder.mkdir(exist_ok=True)
        buildah = Buildah(folder)
        is_other = options.builder == "buildkit"
        yield BuildKit(folder / options.builder, buildah) if is_other else buildah


def _tag(source: Source, options: argparse.Namespace) -> str:
    """The version; with the name of a second builder, so that a cluster can have both images."""
    first = options.builder == _BUILDERS[0]
    return source.version if first else f"{source.version}-{options.builder}"


def _file_name(target: str, options: argparse.Namespace) -> str:
    first = options.builder == _BUILDERS[0]
    return f"{target}.tar" if first else f"{target}-{options.builder}.tar"


def _archives(source: Source, options: argparse.Namespace, tag: str) -> Path:
    """Return the folder for archives of this state: image-archives/[BUILDER-]KEY in the cache.

    The tag is in the key since an archive names its image.
    """
    key = source.key(tag, options.base_image, options.base)
    if options.builder != _BUILDERS[0]:
        key = f"{options.builder}-{key}"
    return jars.cache_dir() / _ARCHIVES / key


def _forget(newest: Path) -> None:
    """Remove the archives of older states of the builder that made `newest`.

    image-archives/1f3a…             buildah     older: removed
    image-archives/9c27…             buildah     newest
    image-archives/buildkit-1f3a…    buildkit    stays
    """
    os.utime(newest)
    builder = newest.name.rpartition("-")[0]
    of_builder = [
        state for state in newest.parent.iterdir() if state.name.rpartition("-")[0] == builder
    ]
    states = sorted(of_builder, key=lambda state: state.stat().st_mtime)
    for state in states[:-RETAINED_STATES]:
        shutil.rmtree(state, ignore_errors=True)


def _same_file(stored: Path, asked: Path) -> None:
    """Give the archive a second name where asked for: a copy of Spark's would take 1.2 GB."""
    # Removed before anything is written: it may be another name of an older state's archive, and
    # copying onto it would write into that.
    asked.unlink(missing_ok=True)
    try:
        asked.hardlink_to(stored)
    except OSError:
        shutil.copyfile(stored, asked)  # on another disk


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    # In a pipe lines would come when the next build is over, minutes later.
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="images.py", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, run in (("build", build), ("check", check)):
        command = commands.add_parser(name, help=(run.__doc__ or "").partition(";")[0])
        command.set_defaults(run=run)
        command.add_argument("targets", nargs="*", metavar="TARGET", help="default: both")
        command.add_argument("--builder", default=_BUILDERS[0], choices=_BUILDERS)
        command.add_argument("--tag", help="default: the version, with a second builder's name")
        command.add_argument("--base-image", default="debian:bookworm-slim")
        command.add_argument("--base", default="auto", choices=("auto", "registry", "debootstrap"))
        command.add_argument("--archive", type=Path, metavar="FOLDER", help="put archives there")
        command.add_argument("--rebuild", action="store_true", help="use no layer of before")
    listing = commands.add_parser("layers", help="digests and sizes of the layers of archives")
    listing.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE")
    listing.set_defaults(run=layers)
    commands.add_parser("clean", help="remove images and archives").set_defaults(run=clean)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; the exit code: 0 done, 1 failed or found wrong, 2 misused."""
    parser = _parser()
    options = parser.parse_args(arguments)
    unknown = set(getattr(options, "targets", ())) - set(TARGETS)
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    try:
        code: int = options.run(options)
    except (IcdcError, tarfile.TarError) as exc:
        sys.stderr.write(f"error: {exc}\n")
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
