"""Builds the images of the Dockerfile as OCI archives, and looks into what was built.

    tools/images/images.py build [operator|spark …] [--builder B] [--tag T] [--archive FOLDER]
    tools/images/images.py check [operator|spark …] [--builder B] [--tag T]

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
"""States of the checkout whose archives stay, for each builder; layers give others soon."""
_BUILDERS = ("buildah", "buildkit")
_FIRST = ("buildah", "debootstrap")
_PACKAGES = {"buildah": _FIRST, "buildkit": (*_FIRST, *PACKAGES)}

Builder = Buildah | BuildKit


def build(options: argparse.Namespace) -> int:
    """Makes the archives that are asked for; prints name, digest and size of each."""
    source = image_context.source()
    tag = options.tag or _tag(source, options)
    folder = options.archive or _archives(source, options, tag)
    folder.mkdir(parents=True, exist_ok=True)
    for target in options.targets or TARGETS:
        started = time.monotonic()
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
    host_packages.ensure(_PACKAGES[options.builder])
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
        passed = archive.with_suffix(f".{image_checks.key()}.passed")
        if passed.is_file() and not options.rebuild:
            _say(f"{target}: 0 problems, as found before")
            continue
        contents = _inspect(source, options, target, archive)
        problems = list(image_checks.problems(target, source.version, contents))
        wrong += [f"{target}: {problem}" for problem in problems]
        _say(f"{target}: {len(contents['packages'])} packages, {len(problems)} problems")
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
    """Prints digest, bytes and compressed bytes of each layer, so that builds can be compared."""
    for file in options.archives:
        listed = oci_archive.layers(file)
        for digest, size, packed in listed:
            _say(f"{file.stem} {digest} {size} {packed}")
        whole = sum(size for _, size, _ in listed) / 1e6
        sent = sum(packed for _, _, packed in listed) / 1e6
        _say(f"{file.stem} {whole:.0f} MB, compressed {sent:.0f} MB")
    return 0


def clean(_: argparse.Namespace) -> int:
    """Removes all images and archives from the cache."""
    for name in reversed(_BUILDERS):
        with _storage(argparse.Namespace(builder=name)) as builder:
            builder.clean()
    return 0


@contextmanager
def _storage(options: argparse.Namespace) -> Iterator[Builder]:
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
    key = source.key(tag, options.base_image, options.base)
    if options.builder != _BUILDERS[0]:
        key = f"{options.builder}-{key}"
    return jars.cache_dir() / "image-archives" / key


def _forget(newest: Path) -> None:
    """Removes the archives of older states."""
    os.utime(newest)
    builder = newest.name.rpartition("-")[0]
    of_builder = [
        state for state in newest.parent.iterdir() if state.name.rpartition("-")[0] == builder
    ]
    states = sorted(of_builder, key=lambda state: state.stat().st_mtime)
    for state in states[:-RETAINED_STATES]:
        shutil.rmtree(state, ignore_errors=True)


def _same_file(stored: Path, asked: Path) -> None:
    asked.unlink(missing_ok=True)
    try:
        asked.hardlink_to(stored)
    except OSError:
        shutil.copyfile(stored, asked)  # on another disk


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
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
    """The exit code: 0 done, 1 failed or found wrong."""
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
