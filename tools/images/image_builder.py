"""Builds images with buildah, in a storage of its own below the project's cache.

The only module that starts buildah. No daemon, no registry and, with chroot in place of a
container, no rights beyond root's ordinary ones.

What a user gains: images on hosts where no daemon of Docker runs and none can, as within a
container of CI: one Debian package of 20 MB. `docker build` does as well where there is a daemon.
Here are only buildah's calls, and the bound of its cache, which buildah itself does not have.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import caches
import image_base
import oci_archive
from icdc_api.errors import Submission
from icdc_cli.embedded import programs

_SECONDS = 7200
"""For one call of buildah: a bound for what hangs, far above the minutes of a cold build."""
_PULL_SECONDS = 120
"""For the one small image; after that, no registry is taken to be reached."""
MAX_STORAGE_BYTES = 3_300_000_000
"""Of layers of earlier builds. One state of both images takes 3 GB, changes of our code little."""
_STAND_IN = "localhost/iceberg-cdc-operator/base"
"""A name without a registry would be looked for in one; `localhost` says that it was made here."""
# overlay would mount the folder of the storage onto itself, privately; that mount would stay behind
# and keep `make clean-caches` from removing the cache.
_STORAGE = ("--storage-driver", "overlay", "--storage-opt", "overlay.skip_mount_home=true")
_SETTINGS = {
    "pip.conf": ("/etc/pip.conf", "~/.config/pip/pip.conf", "~/.pip/pip.conf"),
    "settings.xml": ("~/.m2/settings.xml",),
}
"""Where a user says which mirrors pip and Maven shall use; the Dockerfile takes them as secrets."""


@dataclass(frozen=True)
class Buildah:
    """Builds below one folder, which nobody else uses at the same time."""

    folder: Path
    """With its images and layers (`storage`), and what lasts for one build."""

    def prepare_base(self, wanted: str, how: str, epoch: int) -> str:
        """Return the id of the base image; it is pulled or bootstrapped if the storage has none.

        `wanted` is the registry's name of it, `epoch` seconds since 1970.

            how            in the storage already    else
            registry       wanted                    pull, fail without
            debootstrap    stand-in                  bootstrap
            auto           wanted, then stand-in     pull within two minutes, then bootstrap
        """
        stand_in = f"{_STAND_IN}:{image_base.compute_key(epoch)}"
        names = {"registry": [wanted], "debootstrap": [stand_in], "auto": [wanted, stand_in]}
        for name in names[how]:
            # An image that is not known is an error to buildah (125), not an empty list.
            ids = self._call("images", "--quiet", "--no-trunc", name, may_fail=True)
            if ids:
                return ids.splitlines()[0]
        if how != "debootstrap":
            sys.stdout.write(f"pulling {wanted}\n")
            alone = how == "registry"
            seconds = _SECONDS if alone else _PULL_SECONDS
            # Not tried again: where no registry can be reached, three more tries only take time.
            pulled = self._call(
                *("pull", "--quiet", "--retry", "0", wanted), may_fail=not alone, seconds=seconds
            )
            if pulled:
                return pulled.splitlines()[-1]
        sys.stdout.write(
            f"the base image is made with debootstrap ({image_base.SUITE}), in place of {wanted}: "
            "minutes, but only once\n"
        )
        return self._bootstrap(stand_in, epoch)

    def _bootstrap(self, name: str, epoch: int) -> str:
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".base-") as scratch:
            archive = Path(scratch) / "base.tar"
            image_base.write(archive, Path(scratch), epoch)
            # An empty image; `add` unpacks a tar archive, with owners and modes as they are in it.
            with self._create_container("scratch") as container:
                self._call("add", container, str(archive), "/")
                self._call("config", "--cmd", "bash", container)
                # The id is its last line.
                dated = ("--quiet", "--timestamp", str(epoch))
                return self._call("commit", *dated, container, name).splitlines()[-1]

    def build(
        self, target: str, *, base: str, arguments: Mapping[str, str], epoch: int, cached: bool
    ) -> str:
        """Build a target of the Dockerfile from the checkout as it is; return the image's id.

        `base` is an id from `prepare_base()`, `arguments` are build arguments by name, `epoch` is
        the date of layers and files in seconds since 1970. `cached`: layers of earlier builds may
        be used. Submission with the last lines of the build where it fails.
        """
        words = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        words += [f"--secret=id={name},src={path}" for name, path in find_secrets().items()]
        # What a build that was cut off left behind: mounts, and containers that hold layers.
        self._call("rm", "--all")
        # Standard output has every step of the build in it; the id comes in a file of its own.
        id_file = self.folder / f".{target}.id"
        self._call(
            "build",
            # chroot and the host's network: a build inside of a container may make no namespaces.
            # No pull: the base is in the storage, and `true` asks a registry for a newer one.
            *("--isolation", "chroot", "--network", "host", "--pull=false", "--format", "oci"),
            # What makes the archive of classes the same at each build (spark_class_data.py).
            *("--cap-add=CAP_SYS_NICE", "--security-opt=seccomp=unconfined"),
            # Layers are written in both cases, so that the next build can use them.
            *(("--layers",) if cached else ("--no-cache", "--layers")),
            *("--timestamp", str(epoch), "--target", target, "--iidfile", str(id_file)),
            f"--build-arg=BASE_IMAGE={base}",
            *words,
            str(Path(__file__).resolve().parents[2]),
        )
        return id_file.read_text(encoding="utf-8").strip()

    def archive(self, image: str, name: str, file: Path) -> None:
        """Write the image, an id, as an OCI archive in which it is called `name`.

        Not by the transport oci-archive of buildah: its archive has the dates of the moment.
        """
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".archive-") as scratch:
            self.export(image, f"dir:{scratch}")
            oci_archive.write(Path(scratch), name, file)

    def find(self, archive: Path) -> str | None:
        """Return None: buildah finds images in its storage, so no archive has to be read."""
        return None

    def export(self, image: str, to: str) -> None:
        """Copy the image, its layers not compressed; `to` is a transport and its path."""
        self._call("push", "--quiet", "--disable-compression", image, to)

    def pull(self, image: Path) -> str:
        """Bring in what another builder left as an OCI image layout or archive; return its id."""
        # The path becomes a name, in which few characters may stand: so only the file's own name is
        # said, from within its folder.
        name = f"{'oci' if image.is_dir() else 'oci-archive'}:{image.name}"
        return self._call("pull", "--quiet", name, folder=image.parent).splitlines()[-1]

    def remove(self, image: str) -> None:
        """Remove one image; Submission where a container is made from it."""
        self._call("rmi", image)

    def run(self, image: str, command: list[str], text: str) -> str:
        """Run a command as the image's own user with `text` as input; return its output.

        Submission where it ends with another code than 0.
        """
        with self._create_container(image) as container:
            arguments = ("--isolation", "chroot", container, "--", *command)
            return self._call("run", *arguments, text=text)

    def shrink(self) -> None:
        """Remove all images once they take more than MAX_STORAGE_BYTES.

        The next build then starts without cached layers. buildah cannot say which layers are old:
        its images have the date of the checkout.
        """
        if caches.count_bytes(self.folder / "storage") > MAX_STORAGE_BYTES:
            self._call("rmi", "--all", "--force")

    def clean(self) -> None:
        """Remove every image, and the storage with them."""
        # First by buildah, which takes down what is mounted. It may fail: a storage that a build
        # left broken is a reason to clean.
        self._call("rmi", "--all", "--force", may_fail=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def _create_container(self, image: str) -> Iterator[str]:
        """Make a container of the image, and remove it at the end: it holds the image's layers."""
        container = self._call("from", "--quiet", "--pull=false", image)
        try:
            yield container
        finally:
            self._call("rm", container)

    def _call(
        self,
        command: str,
        *arguments: str,
        may_fail: bool = False,
        text: str = "",
        seconds: float = _SECONDS,
        folder: Path | None = None,
    ) -> str:
        """Return what buildah prints, nothing if it fails and may. Raises Submission."""
        # Both folders, not the defaults: a buildah or podman of this host keeps its own images, and
        # neither sees the other's.
        roots = ("--root", str(self.folder / "storage"), "--runroot", str(self.folder / "run"))
        buildah = ["buildah", *roots, *_STORAGE, command, *arguments]
        name = f"`buildah {command}`"
        try:
            printed = programs.run_program(
                buildah, name=name, seconds=seconds, folder=folder, text=text
            )
        except Submission:
            if may_fail:
                return ""
            raise
        return printed.strip()


def find_secrets() -> dict[str, str]:
    """Return the files that a build takes as secrets, by id, as far as this user has them.

    A mirror's address may hold a password: a secret is mounted for one step and is in no layer.
    """
    # One file for each id: where pip itself would merge several, the first path wins here.
    secret_files = {}
    for name, paths in _SETTINGS.items():
        files = (path for path in map(os.path.expanduser, paths) if Path(path).is_file())
        if path := next(files, ""):
            secret_files[name] = path
    return secret_files
