"""A stand-in for the base image, where no registry can be reached: Debian's own bootstrap.

It has the packages of Debian's slim image and, like it, neither manuals nor translations. Unlike
it, it has the certificate authorities that this host trusts on top: whoever must build without a
registry often sits behind a proxy that has one.

What a user gains: `make images` and the tests' cluster where a mirror of Debian can be reached and
no registry, as on many hosts of CI. debootstrap does the work, but leaves dates, manuals and lists
of packages, so layers would differ from build to build. What it makes here is a layer of 78 MB.
"""

import hashlib
import shutil
import tarfile
from pathlib import Path

from icdc_cli.embedded import programs

SUITE = "bookworm"
"""The suite of the base image that this stands in for, debian:bookworm-slim (images.py)."""
_SECONDS = 1800
"""For one debootstrap, which takes a minute beside a near mirror: a bound for what hangs."""
_HOST_AUTHORITIES = Path("/usr/local/share/ca-certificates")
_HOST_SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
"""Where Debian's own container images name their mirrors; absent on hosts installed otherwise."""
_LEFT_OUT = ("/usr/share/man", "/usr/share/locale", "/usr/share/info", "/usr/share/doc")
# Nobody keeps an image whose build was cut off, so nothing is gained by waiting for the disk.
_DPKG = "".join(
    [
        "force-unsafe-io\n",
        *(f"path-exclude {folder}/*\n" for folder in _LEFT_OUT),
        # After the exclusions: of the lines that fit a path the last one counts. Licences demand
        # that their text comes along.
        "path-include /usr/share/doc/*/copyright\n",
    ]
)
_REMOVED = (
    *_LEFT_OUT,
    "/var/cache/apt",
    "/var/cache/ldconfig",  # what its file says of other files differs from time to time
    "/var/lib/apt/lists",
    "/var/log",
)


def compute_key(epoch: int) -> str:
    """Return 16 hex digits that change with what a base image would be made of.

    But for the packages of the day: the image of a key stays as long as its storage does, so that
    builds of one day and of the next have the same base. `epoch`: seconds since 1970.
    """
    # This file too: what it leaves out and configures is in the image.
    own = [Path(__file__), *sorted(_HOST_AUTHORITIES.glob("*.crt")), _HOST_SOURCES]
    contents = [path.read_bytes() for path in own if path.is_file()]
    return hashlib.sha256(b"\0".join([*contents, str(epoch).encode()])).hexdigest()[:16]


def write(archive: Path, scratch: Path, epoch: int) -> None:
    """Write the base image's files as a tar archive, all of one date; needs root and the network.

    `scratch` is an empty folder for the unpacked system (117 MB), `epoch` seconds since 1970.
    Submission where debootstrap fails.
    """
    rootfs = scratch / "rootfs"
    _run_debootstrap(rootfs)
    _configure(rootfs)
    # Last: dpkg's exclusions act on packages installed later, debootstrap's own came without them.
    for folder in _REMOVED:
        _empty(rootfs / folder[1:])
    with tarfile.open(archive, "w") as tar:
        # Sorted, and one at a time: a folder's own order differs between file systems.
        for path in sorted(rootfs.rglob("*")):
            tar.add(
                path,
                arcname=str(path.relative_to(rootfs)),
                recursive=False,
                filter=lambda member: _remove_dates(member, epoch),
            )


def _run_debootstrap(rootfs: Path) -> None:
    # minbase: packages that are essential, and apt. The Dockerfile installs the rest by name.
    command = ["debootstrap", "--variant=minbase", SUITE, str(rootfs)]
    programs.run_program(command, name="debootstrap", seconds=_SECONDS)


def _configure(rootfs: Path) -> None:
    """Security updates from where this host has them, its authorities, and no manuals later on."""
    # debootstrap writes the one mirror and suite that it used: no security updates.
    if _HOST_SOURCES.is_file():
        _copy(_HOST_SOURCES, rootfs / "etc/apt/sources.list.d")
        (rootfs / "etc/apt/sources.list").unlink(missing_ok=True)
    authorities = rootfs / "usr/local/share/ca-certificates"
    # The Dockerfile installs ca-certificates, whose set-up collects what lies here into the bundle.
    authorities.mkdir(parents=True, exist_ok=True)
    authorities.chmod(0o755)
    for certificate in sorted(_HOST_AUTHORITIES.glob("*.crt")):
        _copy(certificate, authorities)
    slim = rootfs / "etc/dpkg/dpkg.cfg.d/slim"
    slim.write_text(_DPKG, encoding="utf-8")
    slim.chmod(0o644)


def _copy(file: Path, folder: Path) -> None:
    """Copy a file that everybody may read, whatever the umask here is: modes are in a digest."""
    copied = folder / file.name
    shutil.copyfile(file, copied)
    copied.chmod(0o644)


def _empty(folder: Path) -> None:
    """Remove the files below but for licences; folders stay, since packages rely on them."""
    for path in folder.rglob("*"):
        # Links by themselves first: one that leads nowhere in here is neither file nor folder.
        if (path.is_symlink() or path.is_file()) and path.name != "copyright":
            path.unlink()


def _remove_dates(member: tarfile.TarInfo, epoch: int) -> tarfile.TarInfo:
    """Give the member one date in seconds since 1970, and an owner by its number alone."""
    member.mtime = epoch
    # Names are looked up on this host, ids are the image's own.
    member.uname = member.gname = ""
    return member
