"""Builds the images of the Dockerfile as OCI archives, and looks into what was built.

    tools/images/images.py build [operator|spark …] [--builder B] [--tag T] [--archive FOLDER]
    tools/images/images.py check [operator|spark …] [--builder B] [--tag T]

The one entry to the other modules here: `make images` and the cluster level of the tests build by
it, so that both share layers, and have the same image for the same checkout.

    checkout     image_context    what the image is made of: its key
    key          images           an archive of that key is where it is asked for: done
    no archive   image_builder, image_buildkit    base, layers, image
    image        oci_archive      the archive, with its key beside it
    image        image_checks     inspected once for each archive

An image is built again only when something that it is made of has changed; what is built lies
outside the checkout. What a user gains: one command for either builder, with a daemon or without,
and tests that run the very image that a release pushes. Knows neither how builders are called nor
what is in an image.
"""

import argparse
import json
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
import image_parts
import oci_archive
from icdc_api.errors import IcdcError
from icdc_cli.embedded import jars
from image_builder import Buildah
from image_buildkit import PACKAGES, BuildKit
from image_context import TARGETS, Source
from oci_archive import StoredArchive

_ARCHIVES = "image-archives"
"""The folder of the cache for archives that nobody wants elsewhere, in a folder for each builder.

Both images of one state take 1.4 GB.
"""
_BUILDERS = ("buildah", "buildkit")
# Of Debian. The second builder needs them too: its base image is buildah's.
_FIRST = ("buildah", "debootstrap")
_PACKAGES = {"buildah": _FIRST, "buildkit": (*_FIRST, *PACKAGES)}

Builder = Buildah | BuildKit


def build(options: argparse.Namespace) -> int:
    """Make the archives that are asked for; print name, digest, megabytes and seconds of each."""
    source = image_context.read_source()
    for target in options.targets or TARGETS:
        started = time.monotonic()
        archive = _choose_archive(source, options, target)
        with _open_builder(options) as builder:
            if options.rebuild or not archive.is_current():
                _build(builder, source, options=options, target=target, to=archive)
        seconds = time.monotonic() - started
        digest = oci_archive.read_digest(archive.file)
        megabytes = archive.file.stat().st_size / 1e6
        name = image_context.name_image(target, _choose_tag(source, options))
        _say(f"{name} {digest} {megabytes:.0f} MB, {seconds:.1f} s: {archive.file}")
    return 0


def _build(
    builder: Builder, source: Source, *, options: argparse.Namespace, target: str, to: StoredArchive
) -> None:
    """Build the image and write its archive."""
    host_packages.ensure(_PACKAGES[options.builder])
    # Before and not after: the layers of this build are what the next one wants.
    builder.shrink()
    base = builder.prepare_base(options.base_image, options.base, source.epoch)
    image = builder.build(
        target,
        base=base,
        arguments=source.build_arguments(),
        epoch=source.epoch,
        cached=not options.rebuild,
    )
    with to.replace() as made:
        builder.archive(image, image_context.name_image(target, _choose_tag(source, options)), made)
    _forget(to.key)


def check(options: argparse.Namespace) -> int:
    """Inspect the images of this checkout, building those that are missing; 1 if one is wrong.

    An image whose archive was found to be right is inspected again only by other checks.
    """
    source, checks = image_context.read_source(), image_checks.compute_key()
    wrong: list[str] = []
    for target in options.targets or TARGETS:
        archive = _choose_archive(source, options, target)
        if archive.has_passed(checks) and not options.rebuild:
            _say(f"{target}: 0 problems, as found before")
            continue
        contents = _inspect(source, options, target, archive)
        problems = list(image_checks.list_problems(target, source.version, contents))
        wrong += [f"{target}: {problem}" for problem in problems]
        _say(f"{target}: {len(contents['packages'])} packages, {len(problems)} problems")
        # Without an archive the image was built for this check alone: there is nothing to mark.
        if not problems and archive.is_current():
            archive.note_passed(checks)
    for line in wrong:
        _say(line)
    return 1 if wrong else 0


def _inspect(
    source: Source, options: argparse.Namespace, target: str, archive: StoredArchive
) -> dict[str, Any]:
    """Run the inspection in the image, built if it is missing, and return what that lists."""
    with _open_builder(options) as builder:
        host_packages.ensure(_PACKAGES[options.builder])
        image = builder.find(archive.file) if archive.is_current() else None
        if image is None:
            base = builder.prepare_base(options.base_image, options.base, source.epoch)
            arguments = source.build_arguments()
            image = builder.build(
                target, base=base, arguments=arguments, epoch=source.epoch, cached=True
            )
        contents: dict[str, Any] = json.loads(
            builder.run(image, *image_checks.build_question(target))
        )
    return contents


def print_layers(options: argparse.Namespace) -> int:
    """Print digest, bytes and compressed bytes of each layer, so that builds can be compared.

    Two builds of one checkout that print the same lines are the same image.
    """
    for file in options.archives:
        listed = oci_archive.read_layers(file)
        for digest, size, packed in listed:
            _say(f"{file.stem} {digest} {size} {packed}")
        whole = sum(size for _, size, _ in listed) / 1e6
        sent = sum(packed for _, _, packed in listed) / 1e6
        _say(f"{file.stem} {whole:.0f} MB, compressed {sent:.0f} MB")
    return 0


def print_parts(options: argparse.Namespace) -> int:
    """Print what the bytes of each archive's image are for, in megabytes of 10^6 bytes."""
    for file in options.archives:
        measured = image_parts.measure_parts(file)
        for part, size in measured.items():
            _say(f"{file.stem} {size / 1e6:6.1f}  {part}")
        _say(f"{file.stem} {sum(measured.values()) / 1e6:6.1f}  in all")
    return 0


def clean(_: argparse.Namespace) -> int:
    """Remove the storage of both builders, and the archives in the cache."""
    # The second builder's folder lies in the first one's, and its storage has mounts of its own.
    for name in reversed(_BUILDERS):
        with _open_builder(argparse.Namespace(builder=name)) as builder:
            builder.clean()
            # Under the lock: an active build writes its archive there.
            shutil.rmtree(jars.choose_cache_dir() / _ARCHIVES, ignore_errors=True)
    return 0


@contextmanager
def _open_builder(options: argparse.Namespace) -> Iterator[Builder]:
    """Lend the builder that the options name; others wait, since builders share one storage.

    For one target at a time: a check of the tests then waits for one image, not for both.
    """
    folder = jars.choose_cache_dir() / "images"
    with jars.hold_lock(folder.with_name("images.lock")):
        folder.mkdir(exist_ok=True)
        buildah = Buildah(folder)
        is_other = options.builder == "buildkit"
        yield BuildKit(folder / options.builder, buildah) if is_other else buildah


def _choose_tag(source: Source, options: argparse.Namespace) -> str:
    return str(options.tag or source.version)


def _choose_archive(source: Source, options: argparse.Namespace, target: str) -> StoredArchive:
    """Return the image's archive of this state, in the folder asked for or in the cache.

        --archive FOLDER    FOLDER/spark.tar, and no second one in the cache
        (none)              image-archives/KEY/spark.tar in the cache
        a second builder    another key: image-archives/BUILDER-KEY/spark.tar

    The tag is in the key since an archive names its image.
    """
    first = options.builder == _BUILDERS[0]
    key = source.compute_key(_choose_tag(source, options), options.base_image, options.base)
    key = key if first else f"{options.builder}-{key}"
    folder: Path = options.archive or jars.choose_cache_dir() / _ARCHIVES / key
    return StoredArchive(folder / f"{target}.tar", key)


def _forget(key: str) -> None:
    """Remove the archives of the builder of `key` in the cache but for those of this state.

    Of other states they are of no use, and layers give them soon: with the key 9c27… of buildah

    image-archives/1f3a…             buildah     removed
    image-archives/9c27…             buildah     stays
    image-archives/buildkit-1f3a…    buildkit    stays
    """
    builder = key.rpartition("-")[0]
    for state in (jars.choose_cache_dir() / _ARCHIVES).glob("*"):
        if state.name.rpartition("-")[0] == builder and state.name != key:
            shutil.rmtree(state, ignore_errors=True)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    # In a pipe lines would come when the next build is over, minutes later.
    sys.stdout.flush()


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="images.py", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, run in (("build", build), ("check", check)):
        command = commands.add_parser(name, help=(run.__doc__ or "").partition(";")[0])
        command.set_defaults(run=run)
        command.add_argument("targets", nargs="*", metavar="TARGET", help="default: both")
        command.add_argument("--builder", default=_BUILDERS[0], choices=_BUILDERS)
        command.add_argument("--tag", help="default: the version")
        command.add_argument("--base-image", default="debian:bookworm-slim")
        command.add_argument("--base", default="auto", choices=("auto", "registry", "debootstrap"))
        command.add_argument(
            "--archive", type=Path, metavar="FOLDER", help="where archives are and go"
        )
        command.add_argument("--rebuild", action="store_true", help="use no layer of before")
    for name, run in (("layers", print_layers), ("parts", print_parts)):
        listing = commands.add_parser(name, help=(run.__doc__ or "").partition(",")[0])
        listing.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE")
        listing.set_defaults(run=run)
    commands.add_parser("clean", help="remove images and archives").set_defaults(run=clean)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; the exit code: 0 done, 1 failed or found wrong, 2 misused."""
    parser = _build_parser()
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
