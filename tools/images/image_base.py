"""A stand-in for the base image, where no registry can be reached: Debian's own bootstrap.

It has the packages of Debian's slim image and, like it, neither manuals nor translations. Unlike
it, it has the certificate authorities that this host trusts on top: whoever must build without a
registry often sits behind a proxy that has one.
"""

import hashlib
import shutil
import tarfile
from pathlib import Path

from icdc_cli.embedded import programs

SUITE = "bookworm"
_SECONDS = 1800
_HOST_AUTHORITIES = Path("/usr/local/share/ca-certificates")
_HOST_SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
_LEFT_OUT = ("/usr/share/man", "/usr/share/locale", "/usr/share/info", "/usr/share/doc")
# Nobody keeps an image whose build was cut off, so nothing is gained by waiting for the disk.
_DPKG = "".join(
    [
        "force-unsafe-io\n",
        *(f"path-exclude {folder}/*\n" for folder in _LEFT_OUT),
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


def key(epoch: int) -> str:
    """Changes with what a base image would be made of, but for the packages of the day."""
    own = [Path(__file__), *sorted(_HOST_AUTHORITIES.glob("*.crt")), _HOST_SOURCES]
    contents = [path.read_bytes() for path in own if path.is_file()]
    return hashlib.sha256(b"\0".join([*contents, str(epoch).encode()])).hexdigest()[:16]


def write(archive: Path, scratch: Path, epoch: int) -> None:
    """Writes the base image's files as a tar archive, all of one date; needs root and the network.

    Submission where debootstrap fails.
    """
    rootfs = scratch / "rootfs"
    _debootstrap(rootfs)
    _configure(rootfs)
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


def _debootstrap(rootfs: Path) -> None:
    command = ["debootstrap", "--variant=minbase", SUITE, str(rootfs)]
    programs.run_program(command, name="debootstrap", seconds=_SECONDS)


def _configure(rootfs: Path) -> None:
    """Security updates from where this host has them, its authorities, and no manuals later on."""
    if _HOST_SOURCES.is_file():
        _copy(_HOST_SOURCES, rootfs / "etc/apt/sources.list.d")
        (rootfs / "etc/apt/sources.list").unlink(missing_ok=True)
    authorities = rootfs / "usr/local/share/ca-certificates"
    authorities.mkdir(parents=True, exist_ok=True)
    authorities.chmod(0o755)
    for certificate in sorted(_HOST_AUTHORITIES.glob("*.crt")):
        _copy(certificate, authorities)
    slim = rootfs / "etc/dpkg/dpkg.cfg.d/slim"
    slim.write_text(_DPKG, encoding="utf-8")
    slim.chmod(0o644)


def _copy(file: Path, folder: Path) -> None:
    """Copies a file that everybody may read, whatever the umask here is."""
    copied = folder / file.name
    shutil.copyfile(file, copied)
    copied.chmod(0o644)


def _empty(folder: Path) -> None:
    """Removes the files below but for licences; folders stay, since packages rely on them."""
    for path in folder.rglob("*"):
        if (path.is_symlink() or path.is_file()) and path.name != "copyright":
            path.unlink()


def _remove_dates(member: tarfile.TarInfo, epoch: int) -> tarfile.TarInfo:
    member.mtime = epoch
    # Names are looked up on this host, ids are the image's own.
    member.uname = member.gname = ""
    return member
