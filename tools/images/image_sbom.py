"""Writes the bills of materials of an image while it is built, from locks and what lies in it.

    image_sbom.py IMAGE VERSION REVISION CREATED --into FOLDER --lock FILE --report FILE
                  [--jars-lock FILE --jars FOLDER]

What is installed says more than what was asked for: the Dockerfile deletes jars of Spark, and pip
takes one of several wheels that the lock allows. So lists come from the image, and only checksums
and coordinates from the locks, which is also a check that the two agree.

Python packages have the checksums of the lock, jars those of their files, and Debian packages the
version that dpkg knows. Runs in a stage of the Dockerfile with nothing but Python.

What a user gains: bills of every build, with or without a registry. buildah's `--sbom` and
BuildKit's `--attest type=sbom` run a scanner, whose image a registry has. A scanner sees no lock,
of which 54 of the 423 components of Spark's image have their checksum.
"""

import argparse
import hashlib
import json
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import sbom_formats
from sbom_formats import Component, Image

OURS = "iceberg-cdc-operator"
_DPKG = Path("/var/lib/dpkg")
_OS_RELEASE = Path("/etc/os-release")
# The version begins at the first dash before a digit: log4j-1.2-api-2.25.jar is misread, but such
# jars describe themselves.
_JAR = re.compile(r"(?P<name>.+?)-(?P<version>v?\d[^/]*)\.jar")


class WrongBillError(Exception):
    """What was installed is not what the lock says."""


def list_python_packages(lock: str, report: str) -> Iterator[Component]:
    """Yield what pip installed by its report, with the checksum that the lock has for it.

    WrongBillError where the lock has none: a package that pip built itself must be locked by one
    file, its source.

        lock                   pip installed              checksum in the bill
        attrs   A (sdist), B   B, a wheel it fetched      B
        pyspark S (sdist)      W, a wheel it built        S: W is in no lock, and S is all there is
        attrs   A, B           W                          WrongBillError: A or B?
        (none)                 W                          WrongBillError
    """
    # A line `name==version ; marker \`, and below it lines `    --hash=sha256:… \`. Names compare
    # only once normalised: wheels say `SQLAlchemy` where the lock says `sqlalchemy`. By version
    # too: a lock for several Pythons may have a package twice.
    locked = {
        (normalise(name), version): re.findall(r"--hash=sha256:([0-9a-f]{64})", hashes)
        for name, version, hashes in re.findall(
            r"^([A-Za-z0-9._-]+)==([^ ;\\]+)[^\n]*((?:\n +--hash=\S+(?: \\)?)*)", lock, re.MULTILINE
        )
    }
    for package in json.loads(report)["install"]:
        name, version = normalise(package["metadata"]["name"]), package["metadata"]["version"]
        hashes = locked.get((name, version), [])
        archive = package["download_info"].get("archive_info", {})
        # Older versions of pip have only `hash`, "sha256=…", which newer ones call deprecated.
        own = archive.get("hashes", {}).get("sha256", archive.get("hash", "").rpartition("=")[2])
        if own not in hashes and len(hashes) != 1:
            raise WrongBillError(f"{name} {version} with SHA-256 {own} is not in the lock")
        yield Component("pypi", name, version, sha256=own if own in hashes else hashes[0])


def read_dpkg_status(dpkg: Path) -> str:
    """Return dpkg's entries, and those below status.d of packages of which a part was copied here.

    Scanners of images read that folder too; dpkg itself does not.
    """
    files = [dpkg / "status", *sorted(dpkg.glob("status.d/*"))]
    return "\n\n".join(file.read_text(encoding="utf-8").strip() for file in files)


def list_debian_packages(status: str, release: str) -> Iterator[Component]:
    """Yield what dpkg's status names as installed.

    `release` is the text of /etc/os-release. Scanners look weaknesses up by distribution, as the
    fixes are Debian's own: without it the version 2.36-9+deb12u10 says little.
    """
    named = re.search(r'^VERSION_ID="?([^"\n]+)"?$', release, re.MULTILINE)
    distribution = f"&distro=debian-{named[1]}" if named else ""
    # dpkg keeps packages that were removed too, with another word at the end of their status.
    for paragraph in status.split("\n\n"):
        # A line that begins with a blank continues the one before and is no field.
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            qualifiers = f"arch={fields['Architecture']}{distribution}"
            name, version = fields["Package"], fields["Version"]
            yield Component("deb", name, version, "debian", qualifiers=qualifiers)


def list_jars(folder: Path, lock: str) -> Iterator[Component]:
    """Yield each jar of the folder: by the lock's coordinates, its own, or its file name.

    `lock` has lines "set coordinates file sha256". Jars are found in it by checksum, not by name:
    a jar that Spark brings under a name of the lock need not be the one that was locked.

        iceberg-aws-bundle-1.12.0.jar       in the lock              pkg:maven/org.apache.iceberg/…
        epoll-4.2.7-linux-x86_64.jar        pom.properties in it     pkg:maven/io.netty/epoll@4.2.7…
        scala-library-2.13.17.jar           neither                  pkg:generic/scala-library@…
    """
    lines = (line.split() for line in lock.splitlines() if not line.startswith("#"))
    locked = {fields[3]: fields[1] for fields in lines if len(fields) == 4}
    for jar in sorted(folder.glob("*.jar")):
        digest = hashlib.sha256(jar.read_bytes()).hexdigest()
        group, name, version, classifier = _find_coordinates(jar, locked.get(digest, ""))
        kind = "maven" if group else "generic"
        qualifiers = f"classifier={classifier}" if classifier else ""
        yield Component(kind, name, version, group, qualifiers, digest, jar.name)


def normalise(name: str) -> str:
    """Return the name of a Python package as package URLs and pip compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _find_coordinates(jar: Path, locked: str) -> tuple[str, str, str, str]:
    """Group, artifact, version and classifier; the group is empty where nothing tells it."""
    if locked:
        group, name, version, *more = locked.split(":")
        return group, name, version, "".join(more)
    with zipfile.ZipFile(jar) as content:
        for member in content.namelist():
            if re.fullmatch(r"META-INF/maven/[^/]+/[^/]+/pom\.properties", member):
                text = content.read(member).decode(errors="replace")
                pom = dict(re.findall(r"^(\w+)\s*=\s*(\S+)\s*$", text, re.MULTILINE))
                name, version = pom.get("artifactId", ""), pom.get("version", "")
                # A jar may hold others whole: only its own description begins as its name does.
                own = re.fullmatch(rf"{re.escape(f'{name}-{version}')}(?:-(.+))?\.jar", jar.name)
                if own and "groupId" in pom:
                    return pom["groupId"], name, version, own[1] or ""
    by_name = _JAR.fullmatch(jar.name)
    return ("", by_name["name"], by_name["version"], "") if by_name else ("", jar.stem, "", "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write both bills; 1 with a sentence where lock and image differ.

    1 ends the build: an image that its bill does not describe is not made.
    """
    options = _build_parser().parse_args(arguments)
    image = Image(f"{OURS}/{options.image}", options.version, options.revision, options.created)
    lock, report = (file.read_text(encoding="utf-8") for file in (options.lock, options.report))
    try:
        # Our own wheel comes from the checkout: no lock has it, and pip's report is of the lock's.
        components = [
            Component("pypi", OURS, options.version),
            *list_python_packages(lock, report),
            *list_debian_packages(read_dpkg_status(_DPKG), _OS_RELEASE.read_text(encoding="utf-8")),
        ]
        if options.jars:
            components += list_jars(options.jars, options.jars_lock.read_text(encoding="utf-8"))
    except WrongBillError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    options.into.mkdir(parents=True, exist_ok=True)
    bills = {
        sbom_formats.SPDX_FILE: sbom_formats.render_spdx,
        sbom_formats.CYCLONEDX_FILE: sbom_formats.render_cyclonedx,
    }
    for name, render in bills.items():
        (options.into / name).write_text(render(image, components), encoding="utf-8")
    return 0


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("image", "version", "revision", "created"):
        parser.add_argument(name)
    for name in ("--into", "--lock", "--report"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--jars-lock", type=Path)
    parser.add_argument("--jars", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
