"""Builds images with BuildKit, which `docker build` uses, beside those that buildah builds.

The only module that starts buildkitd and buildctl; both come from PATH. The daemon lives for one
build, below the project's cache. Base image and runs in an image are buildah's, so that two images
of one checkout differ in nothing but what the builder makes of the Dockerfile.

What a user gains: whoever builds with `docker build` gets an image that was checked as buildah's
was. Two places of the Dockerfile are as they are for BuildKit alone: the modes of folders that COPY
makes, and the dates of jars. `docker buildx` needs Docker's daemon, or a container, to do the same.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import image_builder
import image_context
import oci_archive
from icdc_api.errors import BadSpec, StartTimeout
from icdc_cli.embedded import programs
from image_builder import Buildah

PROGRAMS = ("buildkitd", "buildctl")
PACKAGES = ("runc", "util-linux")
"""Debian packages of what BuildKit runs the steps of a Dockerfile with, and of setpriv."""

_BUILD_SECONDS = 7200
"""A bound for what hangs, as buildah's is."""
_START_SECONDS = 60.0
"""Until buildkitd answers: seconds, but its folder may be on a disk that others use."""
_POLL_SECONDS = 0.1
_CACHE_MEGABYTES = 3_100
"""Layers of earlier builds that stay for later ones, in megabytes of 10^6 bytes."""
_LAST_STEP = "install -d -m 755 "
"""How the last step of both images begins in the Dockerfile, and no step of another stage."""
_SHOWN_LINES = 30
"""Of the log of a daemon that does not start: its last words say why."""
_BASE = "base"
"""The name of the base image here: for `FROM`, for its layout and for the folder of that."""
# Whichever of the two cases this host has them in: BuildKit gives a step both.
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


@dataclass(frozen=True)
class BuildKit:
    """Builds below one folder, which nobody else uses at the same time; has Buildah's methods.

    An image is named by the folder of its OCI image layout or by its archive, a base by
    `FOLDER@DIGEST`.
    """

    folder: Path
    """With its layers (`storage`), its log, base images and what is being built."""
    buildah: Buildah
    """Gives the base image and runs commands, which buildctl cannot do in a finished image."""

    def prepare_base(self, wanted: str, how: str, epoch: int) -> str:
        """Bring the base image that buildah has, or makes, into a layout; done once for each.

        Parameters and errors as in Buildah.prepare_base; returns `FOLDER@sha256:…`.
        """
        image = self.buildah.prepare_base(wanted, how, epoch)
        layout = self.folder / f"{_BASE}-{image.removeprefix('sha256:')[:16]}"
        if not layout.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True)
            # Only the present base is ever asked for.
            for older in self.folder.glob(f"{_BASE}-*"):
                shutil.rmtree(older)
            # Renamed at the end: an export that was cut off must not be taken for a layout.
            made = layout.with_name(f".{layout.name}")
            shutil.rmtree(made, ignore_errors=True)
            self.buildah.export(image, f"oci:{made}:{_BASE}")
            made.rename(layout)
        return f"{layout}@{oci_archive.read_layout_digest(layout)}"

    def build(
        self, target: str, *, base: str, arguments: Mapping[str, str], epoch: int, cached: bool
    ) -> str:
        """Build a target of the Dockerfile from the checkout as it is; the folder of its layout.

        Parameters as in Buildah.build, `base` as `prepare_base()` returned it. BadSpec without the
        programs, StartTimeout and Submission where the build fails.
        """
        layout, _, digest = base.rpartition("@")
        # Not into the last one: the exporter adds to the index of a layout that is there, and the
        # first image of that would be taken for this one.
        layers = self.folder / target
        shutil.rmtree(layers, ignore_errors=True)
        # SOURCE_DATE_EPOCH is a build argument that BuildKit itself reads: `created` of the image
        # and of each step of its history would else be the moment of the build.
        values = {
            **_read_proxies(),
            **arguments,
            "SOURCE_DATE_EPOCH": str(epoch),
            "BASE_IMAGE": _BASE,
        }
        # rewrite-timestamp does the same for files that are newer than the epoch, as the layers are
        # written. That is too late for the archive of classes, which fits jars of one date: those
        # get it in the Dockerfile. `compression` is for new layers: the base's came without.
        output = f"type=oci,tar=false,dest={layers},compression=uncompressed,rewrite-timestamp=true"
        with self._run_daemon() as address:
            _run(
                *("buildctl", "--addr", address, "build", "--progress", "plain"),
                *("--frontend", "dockerfile.v0", "--opt", f"target={target}"),
                *(f"--local={name}={image_context.ROOT}" for name in ("context", "dockerfile")),
                # Allows the folder under a name, and puts its image in the place of `FROM base`.
                *("--oci-layout", f"{_BASE}={layout}"),
                *("--opt", f"context:{_BASE}=oci-layout://{_BASE}@{digest}"),
                *(f"--opt=build-arg:{key}={value}" for key, value in values.items()),
                *(
                    f"--secret=id={name},src={at}"
                    for name, at in image_builder.find_secrets().items()
                ),
                *(() if cached else ("--no-cache",)),
                *("--output", output),
            )
            # Not left to the daemon's own collection, which comes a minute after a build, when the
            # daemon has ended: `rewrite-timestamp` leaves a second copy of an image's layers behind
            # each time, which no record names and nobody reads again.
            limit = f"--keep-storage={_CACHE_MEGABYTES}"
            for what in (f"--filter=description~=/{build_steps_pattern(target)}/", limit):
                _run("buildctl", "--addr", address, "prune", what, name="`buildctl prune`")
        return str(layers)

    def archive(self, image: str, name: str, file: Path) -> None:
        """Write the image as an OCI archive; the layout goes, since the archive has all of it."""
        oci_archive.write_layout(Path(image), name, file)
        shutil.rmtree(image)

    def find(self, archive: Path) -> str | None:
        """Return the image of an archive that is there: BuildKit would write all of it again.

        Its layers may be cached, but `archive()` has removed the layout that was made of them.
        """
        return str(archive) if archive.is_file() else None

    def run(self, image: str, command: list[str], text: str) -> str:
        """Run the command as Buildah.run does; `image` is the path of a layout or an archive.

        A layout goes with it: without an archive the image was built for this one command.
        """
        # For this one command: it takes the image's size a third time, beside layers and archive.
        imported = self.buildah.pull(Path(image))
        try:
            return self.buildah.run(imported, command, text)
        finally:
            self.buildah.remove(imported)
            if Path(image).is_dir():
                shutil.rmtree(image)

    def shrink(self) -> None:
        """Leave the layers to buildkitd, which removes the oldest beyond _CACHE_MEGABYTES.

        Buildah's are bounded here all the same: it makes the base and imports images to run.
        """
        self.buildah.shrink()

    def clean(self) -> None:
        """Remove every image and layer; base and imported images are Buildah.clean's."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def _run_daemon(self) -> Iterator[str]:
        """Run buildkitd; yield its address. BadSpec, StartTimeout.

        For one build and no longer: it locks its folder, and one that stayed behind would keep the
        next from starting.
        """
        missing = [name for name in PROGRAMS if shutil.which(name) is None]
        if missing:
            raise BadSpec(
                f"{' and '.join(missing)} of BuildKit must be on PATH to build with it; "
                "`make soak-buildkit` shows how the tests build and name them."
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / "buildkitd.log"
        # The path of a socket may have 107 bytes, and the cache's own may be longer than that.
        with tempfile.TemporaryDirectory(prefix="icdc-buildkit-") as scratch, log.open("wb") as to:
            address = f"unix://{scratch}/socket"
            daemon = subprocess.Popen(
                # It ends with us, even when we are killed.
                ["setpriv", "--pdeathsig", "TERM", "--", *self._build_daemon_command(address)],
                stdin=subprocess.DEVNULL,
                stdout=to,
                stderr=subprocess.STDOUT,
            )
            try:
                _await(daemon, address, log)
                yield address
            finally:
                # Waited for: while it ends it still has the lock of its folder.
                daemon.terminate()
                daemon.wait()

    def _build_daemon_command(self, address: str) -> list[str]:
        # The worker of containerd is on by itself where its socket is found, such as that of a test
        # node. The net of the host, as with buildah: a step reaches the mirrors that it reaches.
        root = ("--addr", address, "--root", str(self.folder / "storage"))
        worker = ("--containerd-worker=false", "--oci-worker=true", "--oci-worker-net=host")
        # Reserved, least free, at most: what is reserved is never removed, so that with both at the
        # same number the cache fills up to it; 0 leaves the disk's free space out of account.
        budget = f"--oci-worker-gc-keepstorage={_CACHE_MEGABYTES},0,{_CACHE_MEGABYTES}"
        return ["buildkitd", *root, *worker, "--oci-worker-gc=true", budget]


def build_steps_pattern(target: str) -> str:
    """Return the expression that fits BuildKit's descriptions of an image's own steps, no others.

    Their layers are copies of those of other stages, as layers and once more as what was exported.
    The archive has them, and the next build copies them again in seconds:

        [spark 2/5] COPY --from=spark-packages /opt/venv /opt/venv    removed
        mount / from exec /bin/sh -c install -d -m 755 /usr/share…    removed: it holds those before
        mount / from exec /bin/sh -c pip --python /opt/venv/bin/py…   stays
    """
    # Without backslashes and slashes, which buildctl would take for its own.
    return f"^.{target} |^mount . from exec .bin.sh -c {_LAST_STEP}"


def _await(daemon: "subprocess.Popen[bytes]", address: str, log: Path) -> None:
    """Wait until the daemon has a worker; StartTimeout with the end of its log if it has none.

    Not until its socket is there: that comes before the workers, and a build would find none.
    """
    deadline = time.monotonic() + _START_SECONDS
    question = ["buildctl", "--addr", address, "debug", "workers"]
    while subprocess.run(question, capture_output=True, check=False).returncode != 0:
        if daemon.poll() is not None or time.monotonic() > deadline:
            last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_SHOWN_LINES:]
            raise StartTimeout("buildkitd does not start:\n" + "\n".join(last))
        time.sleep(_POLL_SECONDS)


def _run(*command: str, name: str = "`buildctl build`") -> None:
    programs.run_program(command, name=name, seconds=_BUILD_SECONDS)


def _read_proxies() -> dict[str, str]:
    """Return the proxies of this host as build arguments by name.

    BuildKit knows these names: no ARG need declare them, and they are in no layer and no history.
    """
    return {name: os.environ[name] for name in _PROXIES if name in os.environ}
